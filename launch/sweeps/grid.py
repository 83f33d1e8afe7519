"""A sweep from the command line: all combinations of some values of config keys."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from research.contract.errors import UserError

CLOSING = {"[": "]", "{": "}", "(": ")"}


def grid(
    experiment: str, keys: Sequence[str], seeds: int
) -> Callable[[str], Iterator[tuple]]:
    """A sweep function whose rows are the combinations of values.

    Args:
      keys: "objective.rate=.15,.3,.5" and the like; commas in brackets are of a value.
      seeds: of each combination: 0, 1, ...

    Raises:
      UserError: a key has no values, or is named twice.
    """
    values: dict[str, list[str]] = {}
    for item in keys:
        key, sign, text = item.partition("=")
        if not sign or not text:
            raise UserError(
                f"--sweep_keys={item}: give KEY=VALUE,VALUE, as in "
                "objective.rate=.15,.3,.5"
            )
        if key in values or key == "seed":
            remedy = "give --seeds=N" if key == "seed" else "name it once"
            raise UserError(f"--sweep_keys: {key} is set twice; {remedy}")
        values[key] = split(text)

    def sweep(scale: str) -> Iterator[tuple[str, dict[str, Any], tuple[str, str]]]:
        del scale  # the experiment and its overrides say all
        for chosen in itertools.product(*values.values()):
            own = dict(zip(values, chosen, strict=True))
            names = (f"{key.rpartition('.')[2]}={own[key]}" for key in own)
            row = ", ".join(names) or experiment
            for seed in range(seeds):
                yield experiment, own | {"seed": seed}, (row, "pretraining")

    return sweep


def split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, open_brackets = [""], []
    for letter in text:
        if letter in CLOSING:
            open_brackets.append(CLOSING[letter])
        elif open_brackets and letter == open_brackets[-1]:
            open_brackets.pop()
        if letter == "," and not open_brackets:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
