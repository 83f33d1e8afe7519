"""Copies of a text: which rows are whose, whatever was asked before."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from research.contract.batch import OTHER_DOCUMENT
from research.data.rows import UNITS, TextSpec
from research.data.store.copies import Copies
from research.data.store.example_index import build_index
from tests.testing import toy_objectives

SIZES = (3, 1, 4, 1, 5)
TEXT = toy_objectives.Stream((tuple([90] * 30),))
PAIRS = TextSpec("pair", 40, other_document_rate=0.5, short_rate=0.1)


def copies(num: int) -> Copies:
    """Copies that have 3, 1, 4, 1, 5, 3, 1, ... rows."""
    return Copies(lambda copy: SimpleNamespace(start=range(SIZES[copy % 5])), num)


def rows_one_by_one(num: int, count: int) -> np.ndarray:
    """[count, 2]: epoch and position of the first rows, counted."""
    epochs = (epoch for epoch in range(count))
    copy = lambda epoch: epoch % num if num else epoch  # noqa: E731
    rows = [(e, p) for e in epochs for p in range(SIZES[copy(e) % 5])]
    return np.array(rows[:count])


@given(
    st.sampled_from([0, 1, 2, 3, 5]),
    st.lists(st.lists(st.integers(0, 60), max_size=5), min_size=1, max_size=4),
)
def test_rows_are_located_whatever_was_asked_before(num, asked):
    own, expected = copies(num), rows_one_by_one(num, 61)
    for each in asked:
        counter = np.array(each, np.int64)
        epoch, position = own.locate(counter)
        np.testing.assert_array_equal(np.stack([epoch, position], 1), expected[counter])
        np.testing.assert_array_equal(own.counter(epoch, position), counter)
        np.testing.assert_array_equal(copies(num).counter(epoch, position), counter)


def test_a_copy_is_made_when_a_row_of_it_is_asked_for():
    made = []

    def build(copy):
        made.append(copy)
        return SimpleNamespace(start=range(3))

    own = Copies(build, 4)
    assert made == [0]
    own.locate(np.array([2]))
    assert made == [0]
    own.locate(np.array([4]))
    assert made == [0, 1]
    own.locate(np.array([100]))
    assert sorted(made) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "unit", [unit for unit in UNITS.names() if TextSpec(unit, 8).has_copies]
)
def test_each_copy_has_other_rows_of_the_same_text(tmp_path, unit):
    rates = {"other_document_rate": 0.5, "short_rate": 0.1}
    fields = TextSpec(unit, 40).__dataclass_fields__
    spec = TextSpec(unit, 40, **{name: rates[name] for name in rates if name in fields})
    indices = [
        build_index(TEXT, spec.replace(copy=copy), 0, tmp_path) for copy in range(3)
    ]
    assert len({index.fingerprint for index in indices}) == 3
    first = build_index(TEXT, spec, 0, tmp_path)
    assert first.fingerprint == indices[0].fingerprint
    rows = [set(zip(i.start, i.length, i.second, strict=True)) for i in indices]
    for one in range(3):
        for other in range(one):
            shared = rows[one] & rows[other]
            assert len(shared) < (0.9 if unit == "halves" else 0.6) * len(rows[one])


def test_no_wrong_second_segment_is_that_of_another_copy(tmp_path):
    """Beside those that are equal by chance, one in some 30 documents' sentences."""
    indices = [
        build_index(TEXT, PAIRS.replace(copy=copy), 0, tmp_path) for copy in range(10)
    ]
    wrong = [
        set(zip(i.start[n], i.second[n], strict=True))
        for i in indices
        for n in [np.asarray(i.label) == OTHER_DOCUMENT]
    ]
    shared = sum(len(a & b) for n, a in enumerate(wrong) for b in wrong[:n])
    assert shared < 0.02 * sum(map(len, wrong)) * 9 / 2
