"""How a run may end early; `launch` prints each as one line, with its exit code."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Is the user's to mend: says what is wrong, where, and what would be right."""


class NonFiniteLossError(ArithmeticError):
    """The loss is not a number any more."""


class PreemptedError(Exception):
    """The run was asked to stop; it is saved, and the same command goes on."""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """An error for a name that is not among the known ones; near ones come first."""
    known = sorted(map(str, known))
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    if near:
        hint = "did you mean " + " or ".join(near) + "?"
    else:
        hint = "known: " + ", ".join(known)
    return UserError(f"unknown {what} {name!r}; {hint}")
