"""Values of task files as texts, labels, flags and offsets, for all formats."""

import math
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from research.data.documents import LABEL_SEPARATOR
from research.data.read.formats.parsing.lines import replace_surrogates


def text_of(value: Any, errors: str = "strict") -> str:
    """A text; "" if the value is missing, i.e. None or NaN.

    Args:
      errors: what bytes that are not UTF-8 become, as in `bytes.decode`.

    Raises:
      ValueError: it is not a text.
    """
    if _is_missing(value):
        return ""
    value = _decoded(value, errors)
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.40} is not text")
    return replace_surrogates(value)


def label_of(value: Any) -> str | None:
    """A label as text, or all labels of a list; None if the value is missing or blank.

    An empty list is a label, "": its text has none of the classes.

    Raises:
      ValueError: it is not a text, a finite number, a truth value, a date, or a list of
        these.
    """
    if isinstance(value, np.ndarray):
        value = value.tolist() if value.ndim == 0 else list(value)
    if not isinstance(value, list):
        return _one_label(value)
    return LABEL_SEPARATOR.join(sorted(filter(None, map(_one_label, value))))


def flag_of(value: Any, name: str) -> bool:
    """The truth value of a key; a missing one is false.

    Raises:
      ValueError: it is neither true nor false, 1 nor 0.
    """
    if value is None or isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral) and value in (0, 1):
        return bool(value)
    raise ValueError(f"{name} must be true or false, not {value!r:.40}")


def offset_of(value: Any, name: str) -> int:
    """The whole number of a key.

    Raises:
      ValueError: it is not one; a truth value is not one either.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise ValueError(f"{name} must be a whole number, not {value!r:.40}")
    return int(value)


def _one_label(value: Any) -> str | None:
    if _is_missing(value):
        return None
    value = _decoded(value)
    if isinstance(value, Mapping | list | np.ndarray):
        raise ValueError(f"{value!r:.40} is not a label, which is text or a number")
    if isinstance(value, float | np.floating) and math.isinf(value):
        raise ValueError(f"{value!r:.40} is not a label: it is not finite")
    return replace_surrogates(str(value)).strip() or None


def _is_missing(value: Any) -> bool:
    is_number = isinstance(value, float | np.floating)
    return value is None or (is_number and math.isnan(value))


def _decoded(value: Any, errors: str = "strict") -> Any:
    """The text of bytes; any other value as it is.

    Raises:
      ValueError: the bytes are not UTF-8.
    """
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise ValueError(f"{value!r:.40} is not UTF-8 ({error.reason})") from error


def class_names(features: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The names of a ClassLabel or a sequence of these; () for other features."""
    return tuple(getattr(dict(features.items()).get(name), "names", ()) or ())
