"""Mutants are told apart, stale ones are reported, and published bugs have some."""

import re
from collections import defaultdict

import pytest

from tests.proofs.mutation import ROOT, Mutant, mutants_by_group, stale_lines

FRESH = Mutant("a bug", "x.py", "a = 1", "a = 2", "test_x.py", "name")
BUG_ROW = re.compile(r"^\| (\d+) \|.*\| ([\w, ]+) \|$", re.MULTILINE)


@pytest.mark.parametrize(
    ("change", "text", "reason"),
    [
        ({}, "a = 1", ""),
        ({}, "b = 1", "occurs 0 times"),
        ({}, "a = 1; a = 1", "occurs 2 times"),
        ({"new": "a = "}, "a = 1", "invalid syntax"),
        ({"new": "a = 1  # the same"}, "a = 1", "leaves the code as it is"),
        ({"file": "moved.py"}, "a = 1", "moved.py is missing"),
        ({"test_file": "test_moved.py"}, "a = 1", "test_moved.py is missing"),
    ],
)
def test_a_stale_mutant_is_reported_with_file_group_bug_and_reason(
    tmp_path, change, text, reason
):
    (tmp_path / "x.py").write_text(text)
    (tmp_path / "test_x.py").touch()
    mutant = FRESH._replace(**change)
    lines = stale_lines({"toys": [mutant]}, tmp_path)
    assert bool(lines) == bool(reason)
    for line in lines.values():
        assert line.startswith(f"{mutant.file}: toys: a bug: ") and reason in line


def test_each_published_bug_is_cited_by_the_groups_that_its_row_names():
    groups = defaultdict(set)
    for name, mutants in mutants_by_group().items():
        for mutant in mutants:
            if mutant.pitfall:
                groups[mutant.pitfall].add(name)
    page = (ROOT / "docs/published_bugs.md").read_text()
    rows = {
        int(number): set(names.split(", ")) for number, names in BUG_ROW.findall(page)
    }
    assert rows == groups


def test_every_bug_has_a_name_of_its_own():
    bugs = [mutant.bug for group in mutants_by_group().values() for mutant in group]
    assert len(set(bugs)) == len(bugs)
