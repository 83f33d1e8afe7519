"""Which mutants select no test, by one collection of all their files."""

import contextlib
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from _pytest.mark import KeywordMatcher
from _pytest.mark.expression import Expression

from tests.proofs.mutation import ROOT, Mutant


class _Collected:
    """A plugin of pytest that keeps what it collects."""

    items: Sequence[pytest.Item] = ()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = session.items


def empty_selections(
    mutants: Iterable[Mutant], root: Path = ROOT, options: Sequence[str] = ()
) -> dict[Mutant, str]:
    """Each mutant that selects no test of its file -> a line.

    Args:
      options: further arguments of pytest.

    Raises:
      ValueError: files cannot be collected.
    """
    mutants = [each for each in mutants if (root / each.test_file).is_file()]
    files = sorted({str(root / mutant.test_file) for mutant in mutants})
    collected, output = _Collected(), io.StringIO()
    arguments = ["--collect-only", "-p", "no:cacheprovider", *options, *files]
    with contextlib.redirect_stdout(output):
        status = pytest.main(arguments, [collected])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise ValueError(f"tests cannot be collected: {output.getvalue()[-1500:]}")
    names: dict[Path, list[KeywordMatcher]] = {}
    for item in collected.items:
        names.setdefault(item.path, []).append(KeywordMatcher.from_item(item))
    lines = {}
    for mutant in mutants:
        selects = Expression.compile(mutant.test_expression).evaluate
        if not any(map(selects, names.get(root / mutant.test_file, []))):
            lines[mutant] = (
                f"{mutant.bug}: {mutant.test_file} has no test "
                f"{mutant.test_expression!r}"
            )
    return lines
