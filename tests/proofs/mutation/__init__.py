"""Mutation tests: bugs that others shipped, as small changes of this project's code.

Each module of this folder is a group with a list `MUTANTS`. `make mutants` checks that
the tests kill every one: they have to fail when it is applied. A mutant names source
text, so it is stale where that text has changed: `reason_stale` says why.
"""

import ast
import importlib
import pkgutil
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[3]


PARSERS = {
    ".py": lambda text: ast.dump(ast.parse(text)),
    ".toml": tomllib.loads,
}
"""Suffix of a file -> what a text says, whatever its white space and comments."""


class Mutant(NamedTuple):
    """One bug, and the tests that have to fail with it."""

    bug: str  # what it does, in words
    file: str  # from the root of the project
    old: str  # occurs exactly once in the file
    new: str
    test_file: str
    test_expression: str  # selects tests of `test_file`, as pytest's -k
    pitfall: int = 0  # its number in docs/published_bugs.md; 0: a bug of our own

    def applied(self, text: str) -> str:
        """The file's text with the bug.

        Raises:
          ValueError: `old` does not occur exactly once.
        """
        count = text.count(self.old)
        if count != 1:
            raise ValueError(f"{self.old!r} occurs {count} times, not once")
        return text.replace(self.old, self.new)

    def reason_stale(self, root: Path = ROOT) -> str:
        """Why it no longer applies to the project in `root`; "" if it applies."""
        for file in (self.file, self.test_file):
            if not (root / file).is_file():
                return f"{file} is missing"
        text = (root / self.file).read_text()
        read = PARSERS[Path(self.file).suffix]
        try:
            changed = read(self.applied(text))
        except (ValueError, SyntaxError) as error:
            return str(error)
        return "the change leaves the code as it is" if changed == read(text) else ""


def mutants_by_group() -> dict[str, list[Mutant]]:
    """Group -> its mutants."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = {
        name: importlib.import_module(f"{__name__}.{name}")
        for name in names
        if not name.startswith("_")
    }
    return {name: module.MUTANTS for name, module in modules.items()}


def stale_lines(
    groups: dict[str, Iterable[Mutant]], root: Path = ROOT
) -> dict[Mutant, str]:
    """Each mutant that no longer applies -> a line with its file, group and bug."""
    return {
        mutant: f"{mutant.file}: {name}: {mutant.bug}: {reason}"
        for name, group in groups.items()
        for mutant in group
        if (reason := mutant.reason_stale(root))
    }
