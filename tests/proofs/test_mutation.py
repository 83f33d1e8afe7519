"""Every mutant still applies to the code that it changes."""

import ast
import functools

import pytest

from tests.proofs.mutation import ROOT, Mutant, all_mutants

STALE = Mutant("gone", "x.py", "a = 1", "a = 2", "tests/test_x.py", "name")


@functools.cache
def text_and_tree(file: str) -> tuple[str, str]:
    """A file's text, and its syntax tree."""
    text = (ROOT / file).read_text()
    return text, ast.dump(ast.parse(text))


@pytest.mark.parametrize("mutant", all_mutants(), ids=lambda mutant: mutant.bug)
def test_a_mutant_still_applies(mutant):
    text, tree = text_and_tree(mutant.file)
    assert ast.dump(ast.parse(mutant.applied(text))) != tree
    assert (ROOT / mutant.test_file).is_file() and mutant.test_expression


def test_a_mutant_that_does_not_apply_is_an_error():
    with pytest.raises(ValueError, match="0 times"):
        STALE.applied("b = 1")
    with pytest.raises(ValueError, match="2 times"):
        STALE.applied("a = 1; a = 1")


def test_every_pitfall_has_a_mutant_and_every_bug_a_name_of_its_own():
    pitfalls = {mutant.pitfall for mutant in all_mutants()}
    assert pitfalls >= set(range(1, 19)), sorted(set(range(1, 19)) - pitfalls)
    assert len({mutant.bug for mutant in all_mutants()}) == len(all_mutants())
