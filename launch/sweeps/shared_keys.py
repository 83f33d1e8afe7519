"""The --config.KEY flags of a sweep, which its file does not see but depends on."""

import contextlib
import contextvars
import types
from collections.abc import Iterator, Mapping
from typing import Any

_SHARED: contextvars.ContextVar[Mapping[str, Any]] = contextvars.ContextVar(
    "shared keys", default=types.MappingProxyType({})
)


@contextlib.contextmanager
def given(keys: Mapping[str, Any]) -> Iterator[None]:
    """Sets the shared keys for trials that are computed within the context."""
    token = _SHARED.set(keys)
    try:
        yield
    finally:
        _SHARED.reset(token)


def with_shared(own: Mapping[str, Any]) -> dict[str, Any]:
    """A trial's own overrides, and the shared keys that it does not set itself.

    Keys whose value is another trial are left out.
    """
    keys = {**_SHARED.get(), **own}
    return {key: value for key, value in keys.items() if not isinstance(value, tuple)}


def is_shared(key: str) -> bool:
    """Whether trials that do not set this key themselves have a shared value of it."""
    return key in _SHARED.get()
