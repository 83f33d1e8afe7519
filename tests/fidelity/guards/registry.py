"""What ours does where no config key says so: a guard for each name of a row."""

from collections.abc import Callable
from typing import Any

from tests.fidelity.table import System

GUARDS: dict[str, Callable[[System], Any]] = {}
"""Name of a row `unmodelled` -> what our code does, as a value of that row: a number,
or one of the phrases that the guard knows."""


def guard(name: str) -> Callable:
    """Registers the guard of the rows of a name, in whichever system they are."""

    def register(function: Callable[[System], Any]) -> Callable[[System], Any]:
        assert name not in GUARDS, name
        GUARDS[name] = function
        return function

    return register


def phrase(choices: dict[str, Any]) -> str:
    """The only phrase that holds; "unknown" if none does, or several do."""
    found = [name for name, holds in choices.items() if holds]
    return found[0] if len(found) == 1 else "unknown"
