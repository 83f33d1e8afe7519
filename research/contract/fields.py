"""Config fields: legal values are declared with a field and checked in one function.

rate: float = number(0.15, above=0, below=1)  # fraction of tokens that is masked
unit: str = choice("token", ("token", "word"))  # what is masked as a whole
corpus: str = free_text("embedded")  # a name or a path

def __post_init__(self):
    check(self)
"""

import dataclasses
import math
import numbers
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

MAX_INT = 2**31 - 1
"""The upper bound of a field that declares none: arrays have int32 indices."""


def choice(default: str, values: Collection[str]) -> Any:
    """A dataclass field that is one of `values`.

    A mapping has a line about each, or entries that have one, in their `line`.
    """
    metadata = {"values": tuple(values)}
    field = dataclasses.field(default=default, metadata=metadata)
    if not isinstance(values, Mapping):
        return field
    lines = {n: e if isinstance(e, str) else e.line for n, e in values.items()}
    return with_lines(field, lines)


def with_lines(field: Any, lines: Mapping[str, str]) -> Any:
    """The field, with a line about each value, for `palimpsest show --keys`."""
    return with_metadata(field, lines=dict(lines))


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


def free_text(default: str, *, source: str = "", needed: str = "") -> Any:
    """A field with free text (a path, a name), checked by the code that reads it.

    It is one line without control characters.

    Args:
      source: what it names: "run": a run's workdir, one of its checkpoints or hf:DIR;
        "vectors": one of these, a file of vectors or arrays, or random; "file";
        "files", separated by commas; "folder". A command that starts a run checks first
        that the source exists.
      needed: a description of the source, if the field must not be empty.
    """
    given = {"source": source, "needed": needed}
    metadata = {"text": True} | {key: value for key, value in given.items() if value}
    return dataclasses.field(default=default, metadata=metadata)


def described(words: str, field: dataclasses.Field[Any], **metadata: Any) -> Any:
    """The field, with help text for a command's flag that sets it, and metadata."""
    return with_metadata(field, help=words, **metadata)


def read_with(name: str, values: Collection[str], field: Any) -> Any:
    """The field, which is read only if the field `name` has one of the values.

    A command that starts a run warns if it is set but not read.
    """
    return with_metadata(field, read_with=(name, tuple(values)))


def with_metadata(field: dataclasses.Field[Any], **metadata: Any) -> Any:
    """A field with the default and metadata of another one, and more metadata."""
    return dataclasses.field(
        default=field.default,
        default_factory=field.default_factory,
        metadata={**field.metadata, **metadata},
    )


def model_of(source: str) -> Any:
    """A dataclass field with the `model` keys of the run that the field `source` names.

    A config that does not give them takes those of that run or of hf:DIR.
    """
    return dataclasses.field(default=(), metadata={"model_of": source})


RATES = {"rates": True}
"""Metadata of a field that is a dict: its values are numbers above 0."""


def fraction(default: float) -> Any:
    """A dataclass field in [0, 1]."""
    return number(default, least=0, most=1)


def check(instance: Any, *, prefix: str = "") -> None:
    """Checks every field of a dataclass instance against its declaration.

    Args:
      prefix: what the field's name begins with in the error, such as "train.".

    Raises:
      ValueError: names the first field that is wrong, what is legal, and its value.
    """
    fields = dataclasses.fields(instance)
    values = {field.name: getattr(instance, field.name) for field in fields}
    check_values(fields, values, prefix=prefix)


def check_values(
    fields: Iterable[dataclasses.Field[Any]],
    values: Mapping[str, Any],
    *,
    prefix: str = "",
) -> None:
    """Checks the value of each field against its declaration, as `check` does.

    Raises:
      ValueError: names the first field that is wrong, what is legal, and its value.
    """
    for field in fields:
        value, name = values[field.name], f"{prefix}{field.name}"
        if expected := _TYPES.get(type(field.default)):
            is_legal, words = expected
            if not is_legal(value):
                raise ValueError(f"{name} must be {words}, not {value!r}")
        legal, bounds = field.metadata.get("values"), field.metadata.get("bounds")
        if legal is not None and value not in legal:
            more = "; palimpsest show --keys explains each"
            more = more if field.metadata.get("lines") else ""
            raise ValueError(f"{name} must be {_listed(legal)}, not {value!r}{more}")
        if field.metadata.get("text") and not value.isprintable():
            raise ValueError(
                f"{name} must be one line of printable text, not {value!r}"
            )
        if bounds:
            _check_number(name, value, bounds)
        for key, rate in value.items() if "rates" in field.metadata else ():
            if not _is_number(rate):
                raise ValueError(
                    f"{name}: the rate of {key!r} must be a number, not {rate!r}"
                )
            _check_number(f"{name}: the rate of {key!r}", rate, {"above": 0})


def _check_number(name: str, value: float, bounds: dict[str, float]) -> None:
    """Checks a number as it is and in 32 bits, as devices have it.

    Raises:
      ValueError: names the field, what is legal, and the value.
    """
    stored = value
    if isinstance(value, float):
        with np.errstate(over="ignore", under="ignore"):
            stored = float(np.float32(value))
    for each in (value, stored):
        if not all(_HOLDS[kind](each, bound) for kind, bound in bounds.items()):
            raise ValueError(f"{name} must be {bounds_words(bounds)}, not {value}")
        if isinstance(each, float) and not math.isfinite(each):
            raise ValueError(f"{name} must be a finite number of 32 bits, not {value}")
    if not isinstance(value, float) and value > MAX_INT and bounds.keys() <= {"least"}:
        raise ValueError(f"{name} must be at most {MAX_INT}, not {value}")


def bounds_words(bounds: Mapping[str, float]) -> str:
    """The bounds of a field's metadata in words, as "at least 0 and below 1"."""
    return " and ".join(_WORDS[kind].format(b) for kind, b in bounds.items())


def check_sum(instance: Any, *names: str) -> None:
    """Checks that fields which are fractions of one whole add up to at most 1.

    Raises:
      ValueError: names the fields and their sum.
    """
    total = sum(getattr(instance, name) for name in names)
    if total > 1 + 1e-9:
        raise ValueError(f"{' + '.join(names)} must be at most 1, not {total:g}")


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


_TYPES: dict[type, tuple[Callable[[Any], bool], str]] = {
    bool: (lambda value: isinstance(value, bool), "true or false"),
    float: (_is_number, "a number"),
    int: (
        lambda value: _is_number(value) and isinstance(value, numbers.Integral),
        "a whole number",
    ),
    str: (lambda value: isinstance(value, str), "text"),
}
"""Type of a field's default -> a test whether a value has it, and its name in words."""

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
    """Names as a list in English; an empty name as quotes."""
    names = [value or '""' for value in values]
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
