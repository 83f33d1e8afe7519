"""Mutation tests: bugs that others shipped, as small changes of this project's code.

Each module of this folder is a group with a list `MUTANTS`. `make mutants` checks that
the tests kill every one: they have to fail when it is applied.
"""

import importlib
import pkgutil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]


class Mutant(NamedTuple):
    """One bug, and the tests that have to fail with it."""

    bug: str  # what it does, in words
    file: str  # from the root of the project
    old: str  # occurs exactly once in the file
    new: str
    test_file: str
    test_expression: str  # selects tests of `test_file`, as pytest's -k
    pitfall: int = 0  # its number in the list of pitfalls of published code; 0: ours

    def applied(self, text: str) -> str:
        """The file's text with the bug.

        Raises:
          ValueError: `old` does not occur exactly once.
        """
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.file}: {self.old!r} occurs {count} times")
        return text.replace(self.old, self.new)


def mutants_by_group() -> dict[str, list[Mutant]]:
    """Group -> its mutants."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {
        name: importlib.import_module(f"{__name__}.{name}")
        for name in names
        if not name.startswith("_")
    }
    return {name: module.MUTANTS for name, module in modules.items()}


def all_mutants() -> list[Mutant]:
    return [mutant for group in mutants_by_group().values() for mutant in group]
