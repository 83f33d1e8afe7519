"""tlm: two languages side by side, their places, kinds and what is hidden of each.

Tests of rates are at fixed seeds; each would fail by chance for 1 seed in 10,000.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import objectives
from research.batch import PARAGRAPH
from research.errors import UserError
from tests.testing.example_batches import keys, texts, vocab

LEVEL = 1e-4
OF = vocab()


def corrupt(example, length, **fields):
    objective = objectives.make_objective("tlm", **fields)
    return objective.corrupt(example, keys(len(example.length)), OF, length)


def parallel(sizes, width, *, source=0):
    """Texts whose sides have these numbers of tokens: [(x, y), ...]."""
    sizes = np.array(sizes, np.int32)
    example = texts(width, sizes.sum(axis=1), OF)
    flags = example.flags.copy()
    flags[:, 0] |= PARAGRAPH
    for row, (first, second) in enumerate(sizes):
        if second:
            flags[row, first] |= PARAGRAPH
    return example._replace(flags=flags, corpus=np.full(len(sizes), source, np.int32))


def restored(batch) -> np.ndarray:
    token = batch["token"].copy()
    row, slot = np.nonzero(batch["weight"])
    token[row, batch["scored"][row, slot]] = batch["target"][row, slot]
    return token


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1))
def test_positions_begin_again_and_kinds_are_languages(sizes):
    example = parallel(sizes, 44)
    batch = corrupt(example, 48, languages="3:1")
    token = restored(batch)
    for row, (first, second) in enumerate(sizes):
        x, y, _ = np.split(example.token[row], [first, first + second])
        sides = [
            [OF.eos_id, *x, OF.eos_id],
            [OF.eos_id, *y, OF.eos_id] if second else [],
        ]
        here = sum(map(len, sides))
        assert token[row, :here].tolist() == sides[0] + sides[1]
        assert (token[row, here:] == OF.pad_id).all()
        assert batch["segment"][row].tolist() == [1] * here + [0] * (48 - here)
        places = [*range(first + 2), *range(len(sides[1]))]
        assert batch["position"][row, :here].tolist() == places
        kinds = [3] * (first + 2) + [1] * len(sides[1])
        assert batch["token_type"][row].tolist() == kinds + [0] * (48 - here)


def test_fifteen_per_cent_of_both_sides_are_hidden_and_no_special():
    batch = corrupt(parallel([(20, 40)] * 2000, 60), 64)
    assert (batch["weight"].sum(axis=1) == 10).all()  # round(0.15 * 64)
    place = batch["scored"][batch["weight"] > 0]
    count = np.bincount(place, minlength=64)
    assert not count[[0, 21, 22, 63]].any()
    assert stats.chisquare(np.delete(count, [0, 21, 22, 63])).pvalue > LEVEL


@pytest.mark.parametrize("side", ["first", "second", "one"])
def test_one_side_alone(side):
    sizes = [(5, 9), (9, 5), (7, 0)] * 200
    batch = corrupt(parallel(sizes, 20), 24, side=side)
    assert batch["position"].max() == 23  # of padding; nothing is shifted
    second = batch["token_type"].max(axis=1) == 1
    for row, (first, other) in enumerate(sizes):
        size = other if second[row] else first
        assert batch["segment"][row].sum() == size + 2
        assert (batch["position"][row] == np.arange(24)).all()
    two = np.array([other > 0 for _, other in sizes])
    assert not second[~two].any()
    if side == "one":
        assert stats.binomtest(int(second[two].sum()), 400).pvalue > LEVEL
    else:
        assert (second[two] == (side == "second")).all()


def test_each_corpus_has_its_languages():
    for source, kinds in enumerate([{0, 2}, {2, 5}]):
        example = parallel([(6, 6)] * 3, 20, source=source)
        batch = corrupt(example, 24, languages="0:2 5:2")
        assert set(batch["token_type"][batch["segment"] > 0]) == kinds
    with pytest.raises(UserError, match="2 pairs for at least 3 corpora"):
        corrupt(parallel([(6, 6)], 20, source=2), 24, languages="0:2 5:2")


def test_a_text_too_long_loses_its_end():
    batch = corrupt(parallel([(10, 30), (40, 5)], 45), 24)
    assert batch["segment"].sum(axis=1).tolist() == [24, 22]
    assert (batch["token_type"].sum(axis=1) == [12, 0]).all()
    assert (restored(batch)[:, [23, 21]][[0, 1], [0, 1]] == OF.eos_id).all()


@pytest.mark.parametrize(
    "fields",
    [
        {"side": "x"},
        {"languages": "0"},
        {"languages": "a:b"},
        {"languages": ""},
        {"languages": "0:-1"},
        {"rate": 1.0},
        {"mask": 0.9, "random": 0.2},
    ],
)
def test_what_makes_no_sense_is_refused(fields):
    with pytest.raises(UserError, match="objective tlm"):
        objectives.make_objective("tlm", **fields)
