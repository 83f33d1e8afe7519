"""The museum of mutants is kept: every bug still fits the code that it changes."""

import ast

import pytest

from tests.proofs.mutation import ROOT, Mutant, mutants

LOST = Mutant("gone", "x.py", "a = 1", "a = 2", "tests/test_x.py", "law")


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.bug)
def test_a_mutant_still_applies(mutant):
    text = (ROOT / mutant.file).read_text()
    changed = mutant.applied(text)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    assert (ROOT / mutant.suite).is_file() and mutant.laws


def test_a_mutant_that_no_longer_fits_is_told():
    with pytest.raises(ValueError, match="0 times"):
        LOST.applied("b = 1")
    with pytest.raises(ValueError, match="2 times"):
        LOST.applied("a = 1; a = 1")


def test_the_museum_shows_what_others_shipped():
    shown = {mutant.pitfall for mutant in mutants()}
    assert shown >= set(range(1, 19)), sorted(set(range(1, 19)) - shown)
    assert len({mutant.bug for mutant in mutants()}) == len(mutants())
