"""A mixture of variants of one objective: each row of a batch belongs to one.

Examples are UL2's denoisers, with constant mixing rates, and the three stages of ERNIE
1.0, whose mixing rates change at given steps.
"""

# B batch, P parts

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from research.contract.batch import ArraySpec, Batch, ConstantSpec, Example, VocabInfo
from research.contract.errors import UserError
from research.contract.fields import choice
from research.data import counter_rng
from research.networks import BoundNetwork
from research.objectives import names
from research.objectives.combined import composite
from research.objectives.losses.cross_entropy import Term

BASE_OBJECTIVES = tuple(n for n in names() if n != __name__.rpartition(".")[-1])
"""Of these, `composite.make_parts` refuses one that evaluates another objective."""


@dataclass(frozen=True)
class Objective(composite.OfParts):
    """Reads the longest text of its parts; each part reads its beginning.

    If parts of a unit that takes a stride differ in length, rows start at random tokens
    (see `shared_input.common_text_spec`). An epoch has one example per `data.stride`
    tokens, by default the number that the longest part reads. A part that reads half as
    many sees one half of the text in an epoch and another half in the next.

    The part of a row is drawn with the row's key and the mixing rates at the row's
    step. Each array has the size of the largest part's. The loss is that of the first
    part, so the fields that it reads must have the same value in all parts.
    """

    base_objective: str = choice("mlm", BASE_OBJECTIVES)  # of all parts
    parts: composite.Fields = ()  # name -> fields of `base_objective`, and mixing_rate:
    # a number (by default 1) or [[step, number], ...], each from its step on and the
    # first from the start; rates are relative to their sum. Without parts: the base
    # objective with its defaults.

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "parts", composite.parse_parts(self.parts))
        composite.check_some(self.schedules, "mixing rates")

    @functools.cached_property
    def _parts(self) -> composite.Parts:
        return composite.make_parts(
            self.parts or (("all", ()),),
            schedule_key="mixing_rate",
            base_objective=self.base_objective,
        )

    def tokens_read(self, length: int) -> float:
        """The mean over the parts, weighted by their mixing rates."""
        read = [part.tokens_read(length) for part in self.members.values()]
        if len({*read}) > 1 and any(map(composite.varies, self.schedules.values())):
            raise UserError(
                "parts of objective mix read texts of different lengths, and their "
                "mixing rates change: the tokens of a row differ by step"
            )
        rates = [points[0][1] for points in self.schedules.values()]
        return float(np.average(read, weights=rates))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """Raises UserError: the parts' arrays differ in name, rank or type."""
        parts = self.members
        specs = {name: part.batch_spec(length) for name, part in parts.items()}
        signatures = {
            name: {array: (len(s.shape), s.dtype) for array, s in arrays.items()}
            for name, arrays in specs.items()
        }
        (first, expected), *others = signatures.items()
        for name, signature in others:
            if signature != expected:
                differ = sorted(dict(signature.items() ^ expected.items()))
                raise UserError(
                    "parts of objective mix need the same arrays; "
                    f"{first!r} and {name!r} differ in {', '.join(differ)}"
                )
        shapes = {
            array: zip(*(arrays[array].shape for arrays in specs.values()), strict=True)
            for array in expected
        }
        return {
            array: ArraySpec(tuple(map(max, shapes[array])), spec.dtype)
            for array, spec in specs[first].items()
        }

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Corrupts each row with its part's objective."""
        batch = composite.empty_batch(self.batch_spec(length), len(key), vocab)
        drawn, base = self.draw_parts(key, example.step), self.text_spec(length)
        for number, part in enumerate(self.members.values()):
            row = np.flatnonzero(drawn == number)
            rows = example.rows(row)
            arrays = composite.corrupt_part(part, rows, base, key[row], vocab, length)
            for name, array in arrays.items():
                at: tuple[Any, ...] = row, *map(slice, array.shape[1:])
                batch[name][at] = array
        return batch

    def draw_parts(self, key: np.ndarray, step: np.ndarray) -> np.ndarray:
        """[B] int64: the index of each row's part, with parts sorted by name.

        Args:
          key, step: [B].
        """
        ends_BP = composite.cumulative_rates(self.schedules, step)
        return (counter_rng.uniform(key, "mix", 1) >= ends_BP[:, :-1]).sum(axis=1)

    def constants(self, vocab: VocabInfo) -> Mapping[str, ConstantSpec]:
        """The constants of the base objective, whose loss reads them.

        Raises:
          UserError: parts have different ones, such as two teachers.
        """
        (first, specs), *others = (
            (name, part.constants(vocab)) for name, part in self.members.items()
        )
        for name, other in others:
            if other != specs:
                raise UserError(
                    "parts of objective mix have one loss, which reads the same "
                    f"constants in all; those of {first!r} and {name!r} differ"
                )
        return specs

    def loss(
        self, net: BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """The terms of the base objective.

        Raises:
          UserError: parts differ in a field that the loss reads.
        """
        (first, objective), *others = self.members.items()
        read: set[tuple[str, ...]] = set()
        result = _recording_reads(objective, read).loss(net, batch, key)
        for name, other in others:
            for *path, field in sorted(read):
                value, other_value = (
                    _value(each, path, field) for each in (objective, other)
                )
                if value != other_value:
                    raise UserError(
                        f"parts of objective mix have one loss: {field} is {value!r} "
                        f"in {first!r}, {other_value!r} in {name!r}"
                    )
        return result


def _value(objective: Any, path: list[str], field: str) -> Any:
    """A value stored by the nested member at `path`; None if there is none."""
    for name in path:
        if not isinstance(objective, composite.Composite):
            return None
        objective = objective.members.get(name)
    return getattr(objective, field, None)


def _recording_reads(
    objective: Any, read: set[tuple[str, ...]], path: tuple[str, ...] = ()
) -> Any:
    """A copy of the objective that adds what it reads to `read`.

    These are the names of values that it stores, each with the path of members to it.
    """

    class Recording(type(objective)):  # type: ignore[misc]  # known when it runs
        def __getattribute__(self, name: str) -> Any:
            if name in objective.__dict__ and name != "members":
                read.add((*path, name))
            return super().__getattribute__(name)

    copy = object.__new__(Recording)
    copy.__dict__.update(objective.__dict__)
    read.add((*path, "name"))
    if isinstance(objective, composite.Composite):
        copy.__dict__["members"] = {
            name: _recording_reads(member, read, (*path, name))
            for name, member in objective.members.items()
        }
    return copy
