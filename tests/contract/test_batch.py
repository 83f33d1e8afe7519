"""The attention mask of a batch: which masks its arrays can say, and which they say."""

# B batch, L queries, M keys

import itertools

import numpy as np
import pytest

from research.contract.batch import Pieces, attention_mask, rank_mask
from research.contract.errors import UserError
from tests.testing.example_batches import vocab
from tests.testing.interval_patterns import PATTERNS, draw_rows

NUM_TOKENS = 3


@pytest.mark.parametrize("pattern", PATTERNS)
def test_two_intervals_of_ranks_are_the_mask_by_definition(pattern):
    """300 packed rows, with padding."""
    arrays, mask = draw_rows(pattern, rows=300, length=30)
    np.testing.assert_array_equal(attention_mask(arrays), mask)
    assert (arrays["segment"] > 1).any() and (arrays["segment"] == 0).any()
    one, other = mask[0, :, None], mask[0, None]  # of two queries neither has all keys
    assert ((one > other).any(-1) & (other > one).any(-1)).any()


def masks_of(*names: str) -> set[tuple]:
    """The masks of one segment that ranks and these arrays of queries can say."""
    ends = itertools.product(range(-1, NUM_TOKENS), repeat=len(names))
    query = dict(zip(names, np.array(list(ends)).T[:, None], strict=True))
    masks = set()
    for rank in itertools.product(range(NUM_TOKENS), repeat=NUM_TOKENS):
        keys = rank_mask(query, {"rank": np.array([rank])})[0]
        rows = {tuple(row) for row in keys.tolist()}
        masks |= set(itertools.product(rows, repeat=NUM_TOKENS))
    return masks


def is_nested(mask: tuple) -> bool:
    """Whether of any two queries one attends to all keys that the other attends to."""
    rows = [set(np.flatnonzero(row)) for row in mask]
    pairs = itertools.combinations(rows, 2)
    return all(one <= other or other <= one for one, other in pairs)


def test_ranks_and_reaches_say_exactly_the_nested_masks():
    rows = list(itertools.product([False, True], repeat=NUM_TOKENS))
    every = set(itertools.product(rows, repeat=NUM_TOKENS))
    nested = {mask for mask in every if is_nested(mask)}
    assert len(every) == 512 and len(nested) == 230
    assert masks_of("reach") == nested
    assert nested < masks_of("low", "reach") < every
    assert masks_of("low", "reach", "low2", "reach2") == every


@pytest.mark.parametrize("unit", ["words", "pieces"])
def test_a_vocabulary_has_the_letters_of_its_entries(unit):
    none, pieces = (
        vocab()._replace(spelling=None, pieces=None),
        (b"", b" r\xc3\xa9"),
    )
    has = (
        {"spelling": ("", "r\xe9")}
        if unit == "words"
        else {"pieces": Pieces(pieces, len)}
    )
    assert none._replace(**has).texts == ("", "r\xe9")
    with pytest.raises(UserError, match=r"letters of tokens are not known"):
        assert none.texts
