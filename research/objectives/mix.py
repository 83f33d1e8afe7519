"""A mixture of variants of one objective: each row of a batch goes to one of them.

UL2's denoisers are one, by fixed shares; the three stages of ERNIE 1.0 another, whose
shares change at given steps.
"""

# B batch, P parts

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from research.batch import ArraySpec, Example, TextSpec, VocabInfo
from research.data import counter_rng
from research.errors import UserError
from research.objectives.inputs import composite, shared_input
from research.objectives.losses.cross_entropy import Term


@dataclass(frozen=True)
class Objective:
    """TextSpec what its longest part reads; every part cuts it to its own length.

    The part of a row is drawn by the row's key, from the shares at the row's step.
    Arrays are as large as the largest part's. The loss is that of the module, so
    fields that it reads have the same value in all parts.
    """

    of: str = "mlm"  # a module of this folder
    parts: tuple = ()  # name -> fields of `of`, and share: how often rows are its own,
    # a number (by default 1) or [[step, number], ...], each from its step on; the
    # shares' sum is free. Without parts: the module with its defaults.

    family = "joint"

    def __post_init__(self):
        object.__setattr__(self, "parts", composite.parse(self.parts))
        if self.of == "mix":
            raise ValueError("of is a module that hides text itself, not mix")
        steps = [0, *(step for points in self._shares for step, _ in points)]
        for step in sorted(set(steps)):
            if not sum(composite.held(points, step) for points in self._shares) > 0:
                raise ValueError(f"the shares of all parts are 0 at step {step}")
        assert self._made  # a part that is not right is told here

    @functools.cached_property
    def _made(self) -> dict[str, Any]:
        """The parts' objectives by name."""
        return {
            name: composite.load(
                name, self.of, {k: v for k, v in fields if k != "share"}
            )
            for name, fields in self._named
        }

    @property
    def _named(self) -> tuple:
        return self.parts or (("all", ()),)

    @functools.cached_property
    def _shares(self) -> list[composite.Schedule]:
        return [
            composite.schedule(
                dict(fields).get("share", 1.0), f"share of part {name!r}"
            )
            for name, fields in self._named
        ]

    @property
    def pattern(self) -> str:
        return composite.pattern(self._made.values())

    @property
    def supports_accumulation(self) -> bool:
        return all(part.supports_accumulation for part in self._made.values())

    def text_spec(self, length: int) -> TextSpec:
        """Raises UserError: no text serves all parts, see `reading.common`."""
        return shared_input.common(self._made, length)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """Raises UserError: the parts make arrays of different names or types."""
        each = {name: part.batch_spec(length) for name, part in self._made.items()}
        kinds = {
            name: {array: (len(s.shape), s.dtype) for array, s in arrays.items()}
            for name, arrays in each.items()
        }
        (first, expected), *others = kinds.items()
        for name, made in others:
            if made != expected:
                differ = sorted(dict(made.items() ^ expected.items()))
                raise UserError(
                    "parts of objective mix make the same arrays; "
                    f"{first!r} and {name!r} differ in {', '.join(differ)}"
                )
        shapes = {
            array: zip(*(arrays[array].shape for arrays in each.values()), strict=True)
            for array in expected
        }
        return {
            array: ArraySpec(tuple(map(max, shapes[array])), spec.dtype)
            for array, spec in each[first].items()
        }

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides each row as its part does."""
        batch = {
            name: np.full(
                (len(key), *spec.shape),
                vocab.pad_id if name.endswith(("token", "target")) else 0,
                spec.dtype,
            )
            for name, spec in self.batch_spec(length).items()
        }
        drawn, base = self.draw(key, example.step), self.text_spec(length)
        for number, part in enumerate(self._made.values()):
            row = np.flatnonzero(drawn == number)
            text = Example(*(array[row] for array in example))
            text = shared_input.share(text, base, part.text_spec(length), vocab.pad_id)
            hidden = part.corrupt(text, key[row], vocab, length)
            for name, array in hidden.items():
                batch[name][row, *map(slice, array.shape[1:])] = array
        return batch

    def draw(self, key: np.ndarray, step: np.ndarray) -> np.ndarray:
        """[B] int64: the number of each row's part, in order of the parts' names.

        key, step: [B].
        """
        shares_BP = np.stack([composite.held(s, step) for s in self._shares], axis=1)
        ends_BP = np.cumsum(shares_BP, axis=1)
        ends_BP /= ends_BP[:, -1:]
        return (counter_rng.uniform(key, "mix", 1) >= ends_BP[:, :-1]).sum(axis=1)

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        return composite.network(self._made.values(), options, vocab)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: those of the module.

        Raises:
          UserError: a field that the loss reads is not the same in all parts.
        """
        (first, objective), *others = self._made.items()
        read = set()
        scored = _watched(objective, read).loss(net, batch, key)
        fields = {field.name for field in dataclasses.fields(objective)} & read
        for name, other in others:
            for field in sorted(fields):
                ours, theirs = getattr(objective, field), getattr(other, field)
                if ours != theirs:
                    raise UserError(
                        f"parts of objective mix are scored alike: {field} is {ours!r} "
                        f"in {first!r}, {theirs!r} in {name!r}"
                    )
        return scored


def _watched(objective: Any, read: set[str]) -> Any:
    """The objective, which adds to `read` the names of the attributes it reads."""

    class Watched(type(objective)):
        def __getattribute__(self, name):
            read.add(name)
            return super().__getattribute__(name)

    copy = object.__new__(Watched)
    copy.__dict__.update(objective.__dict__)
    return copy
