"""A sweep from the command line: all combinations of values of config keys."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from research.contract.errors import UserError
from research.files.json_files import parse_json

CLOSING = {"[": "]", "{": "}", "(": ")"}


def grid(
    experiment: str, keys: Sequence[str], seeds: int
) -> Callable[[str], Iterator[tuple]]:
    """A sweep function whose rows are the combinations of values.

    Args:
      keys: e.g. "objective.rate=.15,.3,.5"; commas in brackets belong to a value.
      seeds: number of seeds per combination: 0, 1, ...

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

    names = {key: _names(key, texts) for key, texts in values.items()}

    def sweep(scale: str) -> Iterator[tuple[str, dict[str, Any], tuple[str, str]]]:
        del scale  # the experiment and its overrides say all
        for chosen in itertools.product(*values.values()):
            own = dict(zip(values, chosen, strict=True))
            row = ", ".join(names[key][own[key]] for key in own) or experiment
            for seed in range(seeds):
                yield experiment, own | {"seed": seed}, (row, "pretraining")

    return sweep


def _names(key: str, texts: Sequence[str]) -> dict[str, str]:
    """Value -> its name in rows: KEY=VALUE, or what phases change, and until when."""
    names = {text: f"{key.rpartition('.')[2]}={text}" for text in texts}
    if key != "train.phases":
        return names
    found = {text: _phases_in_words(text) or names[text] for text in names}
    return found if len({*found.values()}) == len(found) else names


def _changes(own: Mapping[str, Any]) -> str:
    return " ".join(f"{key.rpartition('.')[2]}={own[key]}" for key in own)


def _phases_in_words(text: str) -> str:
    """Phases as text, e.g. "rate=0.4 to 50 % of steps"; "" for none or wrong ones."""
    try:
        return ", then ".join(
            (_changes(own) or "unchanged") + f" to {100 * end:g} % of steps"
            for end, own in parse_json(text)
        )
    except (AttributeError, TypeError, ValueError):  # the config's check says so
        return ""


def split(text: str) -> list[str]:
    """Splits at commas outside brackets."""
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
