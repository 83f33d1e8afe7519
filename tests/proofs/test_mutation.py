"""Mutants are told apart, stale ones are reported, and published bugs have some."""

import re
from collections import defaultdict

import pytest

from tests.proofs.mutation import ROOT, Mutant, mutants_by_group, stale_lines
from tests.proofs.mutation._selections import empty_selections

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


@pytest.mark.parametrize(
    ("expression", "is_found"),
    [("name", True), ("other", False), ("name and not [1]", False), ("deselected", 0)],
)
def test_a_mutant_that_selects_no_test_is_reported(tmp_path, expression, is_found):
    marked = "@pytest.mark.skipped\ndef test_deselected(): pass\n"
    one = "@pytest.mark.parametrize('n', [1])\ndef test_name(n): pass\n"
    (tmp_path / "test_x.py").write_text(f"import pytest\n{one}{marked}")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -m 'not skipped'\n")
    mutant = FRESH._replace(test_expression=expression)
    options = [f"--rootdir={tmp_path}", "-c", f"{tmp_path}/pytest.ini", "--noconftest"]
    options += ["--import-mode=importlib"]
    lines = empty_selections([mutant], tmp_path, options)
    assert bool(lines) != bool(is_found)
    for line in lines.values():
        assert line == f"a bug: test_x.py has no test {expression!r}"


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
