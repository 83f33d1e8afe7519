"""BERT-of-Theseus: layers that learn a task replace modules of a teacher.

Xu et al. 2020; JetRunner/BERT-of-Theseus, bert_of_theseus/modeling_bert_of_theseus.py,
BertEncoder, and replacement_scheduler.py.
"""

# N layers of the teacher, n of the student

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import (
    CONSTANTS,
    ArraySpec,
    Batch,
    ConstantSpec,
    Example,
    VocabInfo,
)
from research.contract.errors import UserError
from research.networks import readouts
from research.objectives.combined import composite
from research.objectives.losses.cross_entropy import Term
from research.objectives.taught import taught

NEUTRAL = {"layer_dropout": 0.0, "window": 0, "shared_layers": False}
"""Keys that make layers depend on their number -> values with which they do not."""
OUTSIDE: tuple[str, ...] = ("layers", "decoder_layers", "max_length", "embedding_width")
OUTSIDE += ("scale_embeddings", "embedding_norm", "tie_embeddings", "output_head")
OUTSIDE += ("output_rows", "shared_embeddings", *readouts.keys())
"""Keys on which layers do not depend."""


@dataclass(frozen=True)
class Objective(taught.Taught):
    """The base objective's loss on the teacher's network with layers of the student.

    A module is N / n consecutive layers of the teacher. Each step draws for each
    module, once for all rows, whether the student's layer replaces it. Embeddings and
    heads are the student's. Evaluations use only the student.
    """

    replacing_rate: composite.Schedule = ((0, 0.5),)  # the probability that a module is
    # replaced: [[step, number], ...], linear between steps; values above 1 count as 1

    def __post_init__(self) -> None:
        rate = composite.parse_schedule(self.replacing_rate, "replacing_rate")
        object.__setattr__(self, "replacing_rate", rate)
        super().__post_init__()

    @property
    def reads_step(self) -> bool:
        return composite.varies(self.replacing_rate) or super().reads_step

    def for_evaluation(self) -> Any:
        return self._base.for_evaluation()

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return super().batch_spec(length) | {"step": ArraySpec(())}

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        batch = super().corrupt(example, key, vocab, length)
        return batch | {"step": example.step.astype(np.int32)}

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: the base objective's network has no modules to replace."""
        needs = self._base.needs(vocab)
        lacking = {
            f"a network with {needs.stacks}": needs.stacks != "one",
            "mems": needs.mems,
            "features of several layers": networks.Ability.FEATURES in needs.abilities,
        }
        for what, is_needed in lacking.items():
            if is_needed:
                raise UserError(
                    f"objective.base_objective {self.base_objective} has {what}, in "
                    "which theseus replaces no modules"
                )
        return needs

    def constants(self, vocab: VocabInfo) -> dict[str, ConstantSpec]:
        """Raises UserError: the teacher's network does not serve the base objective."""
        return self._teacher_constants(self.needs(vocab), vocab, self._base.loss)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """The base objective's terms.

        Raises:
          UserError: the student's layers cannot replace the teacher's.
        """
        # Makes the student's parameters at initialisation; dead code otherwise.
        self._base.loss(net, batch, key)
        options = self._options_of(net.options)
        own = networks.bound_params(net)
        blocks = own["stack"]["blocks"]
        replaced = jax.random.bernoulli(
            jax.random.fold_in(key, 1), self.rate(batch["step"]), (net.options.layers,)
        )
        mixed, runs = replace_modules(
            blocks, batch[CONSTANTS]["teacher"]["stack"]["blocks"], replaced
        )
        params = own | {"stack": own["stack"] | {"blocks": mixed}}
        return networks.apply(
            networks.with_options(net, options),
            params,
            lambda net: self._base.loss(_SomeLayers(net, runs), batch, key),
            networks.dropout_key(net),
        )

    def rate(self, step: jax.Array) -> jax.Array:
        """[]: the probability at a step, which is the same in all rows [B]."""
        rate = composite.piecewise_linear(self.replacing_rate, jnp.max(step))
        return jnp.clip(rate, 0, 1)

    def _options_of(self, student: networks.Network) -> networks.Network:
        """The student's options with the teacher's number of layers.

        Raises:
          UserError: options differ other than those of the loop, or there are no
            modules.
        """
        teacher = self._teacher
        has_layers = networks.Ability.LAYERS in student.abilities
        if type(teacher) is not type(student) or not has_layers:
            raise UserError(
                "theseus replaces layers of one stack, not of model.network "
                f"{student.name} by {teacher.name}"
            )
        for key, value in NEUTRAL.items():
            if getattr(student, key) != value:
                raise UserError(
                    f"objective theseus needs model.{key} {value}, not "
                    f"{getattr(student, key)}"
                )
        for key in (key for key in student.parameter_keys() if key not in OUTSIDE):
            if getattr(student, key) != getattr(teacher, key):
                raise UserError(
                    "theseus replaces layers by layers of the same kind, but "
                    f"model.{key} is {getattr(student, key)} and the teacher's "
                    f"{getattr(teacher, key)}"
                )
        if teacher.layers % student.layers:
            raise UserError(
                f"the {teacher.layers} layers of the teacher are not a multiple of "
                f"model.layers {student.layers}: a module is as many for each"
            )
        return dataclasses.replace(student, layers=teacher.layers)


def replace_modules(
    student: Any, teacher: Any, replaced: jax.Array
) -> tuple[Any, jax.Array]:
    """The blocks of a network in which the student's layers replace some modules.

    Args:
      student, teacher: parameters of blocks, stacked over n and N layers.
      replaced: [n] bool, for each layer of the student.

    Returns:
      The blocks, stacked over N layers, and [N] bool: which of them run. A layer of the
      student takes the index of the first layer of its module; the others do not run.
    """
    size = len(jax.tree.leaves(teacher)[0]) // len(replaced)
    from_student = jnp.repeat(replaced, size)
    is_first = np.arange(len(from_student)) % size == 0

    def choose(own: jax.Array, other: jax.Array) -> jax.Array:
        own = jnp.repeat(own, size, axis=0)
        chosen = jnp.expand_dims(from_student, range(1, own.ndim))
        return jnp.where(chosen, own, other.astype(own.dtype))

    return jax.tree.map(choose, student, teacher), is_first | ~from_student


class _SomeLayers:
    """A `networks.BoundNetwork` in which only some layers run."""

    def __init__(self, net: Any, runs: jax.Array):
        self._net, self._runs = net, runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)

    def states(
        self, group: Mapping[str, Any], scored: Any = None, **options: Any
    ) -> jax.Array:
        return self._net.outputs(group, scored, runs=self._runs, **options).states

    def features(self, group: Mapping[str, Any], scored: Any = None) -> jax.Array:
        return self.states(group, scored)  # of `Needs.features` last
