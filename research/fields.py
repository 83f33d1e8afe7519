"""Config fields: legal values are declared with the field, and checked in one function.

rate: float = number(0.15, above=0, below=1)  # fraction of tokens that is masked
unit: str = choice("token", ("token", "word"))  # what is masked as a whole

def __post_init__(self):
    check(self)
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any


def choice(default: str, values: Sequence[str]) -> Any:
    """A dataclass field that is one of `values`."""
    return dataclasses.field(default=default, metadata={"values": tuple(values)})


def number(
    default: float,
    *,
    least: float | None = None,
    most: float | None = None,
    above: float | None = None,
    below: float | None = None,
) -> Any:
    """A numeric dataclass field with bounds; `least` and `most` are legal values."""
    bounds = {"least": least, "above": above, "most": most, "below": below}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return dataclasses.field(default=default, metadata={"bounds": given})


def fraction(default: float) -> Any:
    """A dataclass field in [0, 1]."""
    return number(default, least=0, most=1)


def check(instance: Any, *, prefix: str = "") -> None:
    """Checks every field of a dataclass instance against its declaration.

    Args:
      prefix: of the field's name in the error, such as "train.".

    Raises:
      ValueError: names the first field that is wrong, what is legal, and its value.
    """
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        values, bounds = field.metadata.get("values"), field.metadata.get("bounds", {})
        if values is not None and value not in values:
            raise ValueError(
                f"{prefix}{field.name} is {_listed(values)}, not {value!r}"
            )
        if not all(_HOLDS[name](value, bound) for name, bound in bounds.items()):
            legal = " and ".join(_WORDS[name].format(b) for name, b in bounds.items())
            raise ValueError(f"{prefix}{field.name} is {legal}, not {value}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{prefix}{field.name} is a finite number, not {value}")


def check_sum(instance: Any, *names: str) -> None:
    """Checks that fields which are fractions of one whole add up to at most 1.

    Raises:
      ValueError: names the fields and their sum.
    """
    total = sum(getattr(instance, name) for name in names)
    if total > 1 + 1e-9:
        raise ValueError(f"{' + '.join(names)} is at most 1, not {total:g}")


_HOLDS = {
    "least": lambda value, bound: value >= bound,
    "most": lambda value, bound: value <= bound,
    "above": lambda value, bound: value > bound,
    "below": lambda value, bound: value < bound,
}
_WORDS = {
    "least": "at least {}",
    "most": "at most {}",
    "above": "above {}",
    "below": "below {}",
}


def _listed(values: Sequence[str]) -> str:
    """Names as English lists them; an empty one in quotes."""
    names = [value or '""' for value in values]
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
