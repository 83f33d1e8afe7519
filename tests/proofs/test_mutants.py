"""Mutants apply to the source, name tests that there are, and are told apart."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.proofs.mutants import ROOT, Job, read_mutants

MUTANTS = read_mutants()
BUG_ROW = re.compile(r"^\| (\d+) \|", re.MULTILINE)


def parse(text: str, suffix: str):
    """What a text says, whatever its white space and comments."""
    return tomllib.loads(text) if suffix == ".toml" else ast.dump(ast.parse(text))


def test_every_mutant_changes_the_code():
    assert len({mutant.id for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        text = (ROOT / mutant.file).read_text("utf-8")
        suffix = Path(mutant.file).suffix
        changed = mutant.applied(text)
        assert parse(changed, suffix) != parse(text, suffix), mutant.id


def test_every_test_of_a_mutant_is_defined():
    for test in {test for mutant in MUTANTS for test in mutant.tests}:
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
        assert name.partition("[")[0] in names, test


def test_every_published_bug_has_a_mutant():
    page = (ROOT / "docs" / "published_bugs.md").read_text("utf-8")
    published = {mutant.published for mutant in MUTANTS} - {0}
    assert {int(number) for number in BUG_ROW.findall(page)} == published


@pytest.mark.parametrize(
    ("status", "errors", "problem"),
    [
        (1, {"a": ["AssertionError"], "b": ["Failed"]}, ""),
        (1, {"a": ["AssertionError"], "b": []}, r"SURVIVED \(b\)"),
        (0, {"a": [], "b": []}, r"SURVIVED \(a, b\)"),
        (1, {"a": ["NameError"], "b": ["Failed"]}, r"WRONG FAILURE \(NameError\)"),
        (2, {"a": [], "b": []}, "UNKNOWN"),
        (None, {}, "UNKNOWN"),
    ],
)
def test_only_the_expected_failure_kills(status, errors, problem):
    job = Job(["a", "b"], MUTANTS[0]._replace(error=""))
    assert re.fullmatch(f"{problem}.*" if problem else "", job.failure(status, errors))
    assert Job(["a"]).failure(0, {"a": []}) == ""
    assert "WITHOUT" in Job(["a"]).failure(1, {"a": ["AssertionError"]})
