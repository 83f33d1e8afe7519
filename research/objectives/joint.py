"""A weighted sum of objectives that are trained together, each on the same text.

BERT's masked tokens and next sentences are one, and so is continual multi-task
learning (ERNIE 2.0, Sun et al. 2020, section 3.1): tasks come in by the weights that
they have from a step on, in one compiled step.
"""

# B batch

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research.batch import ArraySpec, Example, TextSpec, VocabInfo
from research.objectives.inputs import composite, input_format, shared_input
from research.objectives.losses.cross_entropy import Term


@dataclass(frozen=True)
class Objective:
    """TextSpec one text for all, of which each part takes its own, see `reading.common`.

    Each part has its arrays, named `<part>_<array>`, and its own pass through the one
    network that serves all; its terms are `<part>/<term>`. Parts hide by the row's own
    key, so that equal parts hide alike.
    """

    parts: tuple = ()  # name -> fields of an objective, and besides: objective, its
    # module (by default the part's name), and weight, the factor of its loss: a number
    # (by default 1) or [[step, number], ...], linear between steps. Without parts: mlm.
    kinds: int = 0  # of places that a part tells apart, where each part is to have
    # kinds of its own: a task embedding (ERNIE 2.0); 0: the parts share theirs

    family = "joint"

    def __post_init__(self):
        object.__setattr__(self, "parts", composite.parse(self.parts))
        for name in self._made:
            for other in self._made:
                if other.startswith(name + "_"):
                    raise ValueError(
                        f"part {other!r} begins as the arrays of part {name!r} do; "
                        "rename one"
                    )
        if self.kinds < 0:
            raise ValueError(f"kinds is at least 0, not {self.kinds}")
        assert self._weights  # one that is not right is told here

    @property
    def _named(self) -> tuple:
        return self.parts or (("mlm", ()),)

    @functools.cached_property
    def _made(self) -> dict[str, Any]:
        """The parts' objectives by name."""
        made = {}
        for name, fields in self._named:
            own = {k: v for k, v in fields if k not in ("objective", "weight")}
            made[name] = composite.load(name, dict(fields).get("objective", name), own)
        return made

    @functools.cached_property
    def _weights(self) -> dict[str, composite.Schedule]:
        return {
            name: composite.schedule(
                dict(fields).get("weight", 1.0), f"weight of part {name!r}"
            )
            for name, fields in self._named
        }

    @property
    def pattern(self) -> str:
        return composite.pattern(self._made.values())

    @property
    def supports_accumulation(self) -> bool:
        return all(part.supports_accumulation for part in self._made.values())

    def text_spec(self, length: int) -> TextSpec:
        """Raises UserError: no text serves all parts."""
        return shared_input.common(self._made, length)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = {
            f"{name}_{array}": spec
            for name, part in self._made.items()
            for array, spec in part.batch_spec(length).items()
        }
        return specs | {"step": ArraySpec(())}

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides for each part in turn, from the clear text."""
        batch, base = {"step": example.step.astype(np.int32)}, self.text_spec(length)
        for number, (name, part) in enumerate(self._made.items()):
            text = shared_input.share(
                example, base, part.text_spec(length), vocab.pad_id
            )
            hidden = part.corrupt(text, key, vocab, length)
            for array in hidden:
                if self.kinds and array.endswith("token_type"):
                    hidden[array] = hidden[array] + np.int32(number * self.kinds)
            batch |= {f"{name}_{array}": value for array, value in hidden.items()}
        return batch

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: the parts' networks cannot be one, or lack kinds."""
        input_format.check_token_types(options, self.kinds * len(self._made))
        return composite.network(self._made.values(), options, vocab)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: those of all parts, their coefficients times the part's weight now.

        The carry is a mapping from the parts that have one to theirs.
        """
        step = jnp.max(batch["step"])  # that of all rows
        terms, memory = {}, {}
        for name, part in self._made.items():
            scored, carry = part.loss(net, self._of(name, batch), key)
            if jax.tree.leaves(carry):
                memory[name] = carry
            weight = composite.between(self._weights[name], step)
            terms |= {
                f"{name}/{term}": value._replace(coef=weight * value.coef)
                for term, value in scored.items()
            }
        return terms, memory or ()

    def _of(self, name: str, batch: Mapping[str, Any]) -> dict[str, Any]:
        """The arrays of one part, under their own names."""
        prefix, carry = f"{name}_", batch.get("carry")
        own = {
            k.removeprefix(prefix): v for k, v in batch.items() if k.startswith(prefix)
        }
        memory = carry if carry is None else dict(carry).get(name, ())
        return own | {"example": batch["example"], "carry": memory}
