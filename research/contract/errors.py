"""Exceptions that end a run early, each with a one-line message and an exit code."""

import contextlib
import difflib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class UserError(ValueError):
    """A mistake of the user; the message says what is wrong, where, and the remedy.

    Args:
      hint: the end of the message: a remedy by config keys, left out by commands that
        take no keys.
    """

    def __init__(self, message: str, hint: str = ""):
        super().__init__(message + hint)
        self.hint = hint

    def _render_traceback_(self) -> list[str]:
        """The lines that a notebook shows (IPython): the message alone."""
        return [f"UserError: {self}"]


def short_traceback(function: Callable[P, T]) -> Callable[P, T]:
    """Wraps a function so that tracebacks of its `UserError` omit the calls inside."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except UserError as error:
            raise error.with_traceback(None) from None

    return call


@contextlib.contextmanager
def renamed_keys(
    names: Mapping[str, str], *, overrides: bool = False
) -> Iterator[None]:
    """Makes a `UserError` name what the user gave instead of a config key.

    Args:
      names: config key -> the flag, or the other key, that stands for it.
      overrides: whether the command takes other keys as --config.KEY; if not, the
        error's hint about them is left out.
    """
    try:
        yield
    except UserError as error:
        text = str(error).removesuffix("" if overrides else error.hint)
        for key, name in names.items():
            text = re.sub(rf"(?<![\w.-]){re.escape(key)}\b", name, text)
        raise UserError(text) from error


class NonFiniteError(ArithmeticError):
    """A loss or a parameter is infinite or not a number; the message says what to try.

    Args:
      what: what is not finite, of which run, and when.
    """

    def __init__(self, what: str):
        super().__init__(
            f"{what}; try a lower optimizer.learning_rate, a longer "
            "optimizer.warmup_steps or optimizer.clip_norm"
        )


class PreemptedError(Exception):
    """The run was requested to stop and is saved; the same command resumes it."""


EXTRAS = {
    **dict.fromkeys(
        ("seqio", "tensorflow", "tensorflow_datasets", "tensorflow_text"), "seqio"
    ),
    **dict.fromkeys(("bm25s", "prometheus_client", "starlette", "uvicorn"), "serve"),
    "mteb": "mteb",
    "lm_eval": "harness",
}
"""Package that is imported -> the extra of setup.py that has it. The extra of a tracker
or backend has its name, and what its class `requires`."""


def missing_package(what: str, package: str, extra: str = "") -> UserError:
    """An error for a feature whose package is not installed.

    Args:
      what: such as "data.reader=seqio".
      extra: the extra of setup.py that has the package; "": taken from EXTRAS, if any.
    """
    if extra := extra or EXTRAS.get(package, ""):
        install = f"pip install '.[{extra}]' in a clone of the repository"
    else:
        install = f"pip install {package}"
    return UserError(f"{what} needs the package {package}: {install}")


MAX_NAMES = 100
"""The most known names that an error lists; if there are more it gives their number."""


def os_reason(error: Exception) -> str:
    """The system's message; if the error has none, its text or its type."""
    text = str(error) if any(error.args) else ""
    return getattr(error, "strerror", None) or text or type(error).__name__


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """An error for a name that is not among the known ones.

    It suggests similar names. If there are none it lists all, unless they are many.
    """
    known = sorted(map(str, known))
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    if near:
        hint = "did you mean " + " or ".join(near) + "?"
    elif len(known) > MAX_NAMES:
        hint = f"none of {len(known):,} known ones is near it"
    else:
        hint = "known: " + (", ".join(known) or "none")
    return UserError(f"unknown {what} {name!r}; {hint}")
