"""A museum of mutants: bugs that others shipped, as small changes of our own code.

Each hangs in a room, a module of this folder with a list `MUTANTS`; the suite has to
kill every one (`make mutants`).
"""

import importlib
import pkgutil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]


class Mutant(NamedTuple):
    """One bug, and the tests that must notice it."""

    bug: str  # what goes wrong, in words
    file: str  # from the root of the project
    old: str  # stands in the file exactly once
    new: str
    suite: str  # a file of tests
    laws: str  # which of them, as pytest's -k takes it
    pitfall: int = 0  # its number among the pitfalls of published code; 0: our own

    def applied(self, text: str) -> str:
        """The file's text with the bug.

        Raises:
          ValueError: the text to be replaced is not there exactly once.
        """
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.file}: {self.old!r} is there {found} times")
        return text.replace(self.old, self.new)


def rooms() -> dict[str, list[Mutant]]:
    """The mutants of every room."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {
        room: importlib.import_module(f"{__name__}.{room}")
        for room in found
        if not room.startswith("_")
    }
    return {room: module.MUTANTS for room, module in modules.items()}


def mutants() -> list[Mutant]:
    """All of them."""
    return [mutant for room in rooms().values() for mutant in room]
