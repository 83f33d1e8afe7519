"""The one exception that is the user's to mend; `launch` prints it as one line."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Says what is wrong, where, and what would be right, in one line."""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """An error for a name that is not among the known ones; near ones come first."""
    known = sorted(map(str, known))
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    if near:
        hint = "did you mean " + " or ".join(near) + "?"
    else:
        hint = "known: " + ", ".join(known)
    return UserError(f"unknown {what} {name!r}; {hint}")
