"""A sum of objectives in one pass, each on its own rows of a batch.

Examples are GPT-BERT (Charpentier and Samuel 2024), with one causal row in sixteen and
masked rows otherwise, and AntLM (Yu et al. 2024), whose shares alternate.
"""

# B batch, L length, P parts

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import (
    INPUT_ARRAYS,
    INTERVAL_ARRAYS,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
)
from research.contract.errors import UserError
from research.networks.shared.dense import gather_positions
from research.objectives.combined import composite
from research.objectives.losses.cross_entropy import Term

BOTH = (
    ("causal", (("documents", "apart"), ("objective", "lm"))),
    (
        "masked",
        (("format", "shifted"), ("objective", "mlm"), ("predict_at", "previous")),
    ),
)
"""The parts if none are given."""

NUM_BITS = 20
"""Bits of a row's number that choose its part."""


@dataclass(frozen=True)
class Objective(composite.OfParts):
    """Reads one text, from which the text of the row's part is derived.

    The part of a row follows from its number, such that rows with consecutive numbers
    have parts in proportion to their shares: with shares of 1 and 15 the first part has
    one row in 16. The input arrays of a row are those of its part; the other arrays of
    a part are named `<part>_<array>`, with weight 0 in rows of other parts. The network
    reads the batch once.

    The loss is the sum of the parts' means, each times its share (ltgoslo/gpt-bert,
    pretraining/train_10m.py, where the rows of a device belong to one part and
    gradients are averaged over devices, however many tokens they score).
    """

    parts: composite.Fields = ()  # name -> fields of an objective, and also: objective,
    # its module (by default the part's name), and share, of the rows and in the loss: a
    # number (by default 1) or [[step, number], ...], each from its step on and the
    # first from the start; shares are relative to their sum. Without parts: causal (lm)
    # and masked (mlm with predict_at previous), with equal shares

    can_be_wrapped = True

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parts", composite.parse_parts(self.parts))
        composite.check_prefixes(self.members)
        composite.check_some(self.schedules, "shares")

    @functools.cached_property
    def _parts(self) -> composite.Parts:
        return composite.make_parts(self.parts or BOTH, schedule_key="share")

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """Raises UserError: the parts' inputs differ in names or sizes."""
        inputs: dict[str, dict[str, ArraySpec]] = {}
        specs = {"step": ArraySpec(())}
        for name, part in self.members.items():
            own = part.batch_spec(length)
            inputs[name] = {k: own.pop(k) for k in [*own] if _is_input(k)}
            specs |= {f"{name}_{array}": spec for array, spec in own.items()}
        (first, shared), *others = inputs.items()
        for name, other in others:
            if other != shared or not {*INPUT_ARRAYS} <= {*shared}:
                raise UserError(
                    "parts of objective hybrid must read the same input arrays of one "
                    f"size, but those of {first!r} and {name!r} differ"
                )
        return specs | shared

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Corrupts each row with its part's objective."""
        batch = composite.empty_batch(self.batch_spec(length), len(key), vocab)
        batch["step"] = example.step.astype(np.int32)
        chosen = self.choose_parts(example.number, example.step)
        base = self.text_spec(length)
        for index, (name, part) in enumerate(self.members.items()):
            row = np.flatnonzero(chosen == index)
            rows = example.rows(row)
            arrays = composite.corrupt_part(part, rows, base, key[row], vocab, length)
            for array, values in arrays.items():
                batch[array if _is_input(array) else f"{name}_{array}"][row] = values
        return batch

    def choose_parts(self, number: np.ndarray, step: np.ndarray) -> np.ndarray:
        """[B] int64: the index of each row's part, with parts sorted by name.

        Args:
          number, step: [B].
        """
        ends_BP = composite.cumulative_rates(self.schedules, step)
        bits = number[:, None] >> np.arange(NUM_BITS) & 1  # van der Corput's sequence
        order_B = bits @ 0.5 ** np.arange(1, NUM_BITS + 1)
        return (order_B[:, None] >= ends_BP[:, :-1]).sum(axis=1)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: a part reads more than one row of one stack."""
        needs = super().needs(vocab)
        others = (needs.mems, needs.layers, needs.undropped, needs.input_features)
        if needs.stacks != "one" or any(others) or needs.span_width:
            raise UserError(
                "parts of objective hybrid must read only tokens, once, by one stack, "
                "without mems, penalties of states or the states of each layer"
            )
        return needs

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """The terms of all parts, with coefficients multiplied by the part's share."""
        once: Any = _ReadOnce(net, batch)
        shares = self._shares(jnp.max(batch["step"]))  # all rows have the same step
        terms: dict[str, Term] = {}
        for share, (name, part) in zip(shares, self.members.items(), strict=True):
            part_terms, _ = part.loss(once, self._rows_of(name, batch), key)
            terms |= {
                f"{name}/{term}": value._replace(coef=share * value.coef)
                for term, value in part_terms.items()
            }
        return terms, ()

    def outputs(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> dict[str, Any]:
        """The outputs of each part, for all rows."""
        return {
            name: part.outputs(net, self._rows_of(name, batch), key)
            for name, part in self.members.items()
        }

    def _rows_of(self, name: str, batch: Batch) -> Batch:
        """The input arrays and the arrays of one part, without its prefix."""
        inputs = {array: value for array, value in batch.items() if _is_input(array)}
        return inputs | self.part_batch(name, batch)

    def _shares(self, step: jax.Array) -> list[Any]:
        """[P]: the shares at a step [], summing to 1; plain numbers if constant."""
        shares = [_value(points, step) for points in self.schedules.values()]
        return [share / sum(shares) for share in shares]


class _ReadOnce:
    """A bound network whose states of one batch are computed once, for all parts."""

    def __init__(self, net: networks.BoundNetwork, batch: Mapping[str, Any]):
        self._net, self._batch = net, batch
        self._states: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._net, name)

    def states(self, group: Mapping[str, Any], scored: Any = None) -> jax.Array:
        """States [B, L, D] of the batch, or [B, P, D] at the scored positions.

        Raises:
          UserError: the group is not the batch.
        """
        if any(group[name] is not self._batch[name] for name in INPUT_ARRAYS):
            raise UserError(
                "a part of objective hybrid reads another row than the batch"
            )
        if self._states is None:
            self._states = self._net.states(self._batch)
        return (
            self._states if scored is None else gather_positions(self._states, scored)
        )


def _value(points: composite.Schedule, step: jax.Array) -> Any:
    """The value of the last point at or before the step, else of the first."""
    if len(points) == 1:
        return points[0][1]
    steps, values = np.array(points, np.float32).T
    return jnp.asarray(values)[jnp.sum(jnp.asarray(steps[1:]) <= step)]


def _is_input(name: str) -> bool:
    return name in (*INPUT_ARRAYS, *INTERVAL_ARRAYS)
