"""reading: what each of several objectives takes of one text."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.batch import NEXT, NONADJACENT, OTHER_DOCUMENT, SENTENCE, TextSpec
from research.errors import UserError
from research.objectives.inputs import shared_input
from tests.testing.example_batches import texts, vocab

OF = vocab()
LENGTHS = st.integers(5, 30)
PAIR = TextSpec(
    "pair", 20, other_document_rate=0.3, nonadjacent_rate=0.3, short_rate=0.1
)


def asks(*reads):
    """Parts a, b, ... that read these, whatever the length."""
    return {
        name: SimpleNamespace(text_spec=lambda length, read=read: read)
        for name, read in zip("abcdef", reads, strict=False)
    }


def pairs(seed=0, count=40):
    """Pairs of two segments, each of one or more sentences; some of one segment."""
    rng = np.random.default_rng(seed)
    length = rng.integers(0, 21, count).astype(np.int32)
    example = texts(20, length, OF, seed=seed)
    first = rng.integers(1, np.maximum(length, 1) + 1).astype(np.int32)
    first = np.minimum(first, length)
    flags = example.flags | (SENTENCE * (rng.random(example.flags.shape) < 0.2))
    flags[np.arange(count), np.minimum(first, 19)] |= SENTENCE
    flags[:, 0] |= SENTENCE
    here = np.arange(20) < length[:, None]
    return example._replace(
        flags=np.where(here, flags, 0).astype(np.uint8),
        first_length=first,
        label=rng.choice([NEXT, OTHER_DOCUMENT, NONADJACENT], count).astype(np.int32),
    )


def is_example(example, width):
    place = np.arange(width)
    beyond = place >= example.length[:, None]
    assert example.token.shape == example.flags.shape == beyond.shape
    assert (example.token[beyond] == OF.pad_id).all() and not example.flags[
        beyond
    ].any()
    assert (example.first_length <= example.length).all()
    assert (example.token.dtype, example.flags.dtype) == (np.int32, np.uint8)
    assert example.length.dtype == example.first_length.dtype == np.int32


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 10**6), st.sampled_from(["passage", "stream"]), st.integers(5, 30)
)
def test_of_a_pair_a_passage_is_both_spans_or_the_first(seed, unit, length):
    example = pairs(seed)
    found = shared_input.share(example, PAIR, TextSpec(unit, length), OF.pad_id)
    is_example(found, min(length, 20))
    for row in range(len(example.length)):
        both = example.label[row] == NEXT
        size = example.length[row] if both else example.first_length[row]
        size = min(size, length)
        assert found.length[row] == found.first_length[row] == size
        np.testing.assert_array_equal(
            found.token[row, :size], example.token[row, :size]
        )
        np.testing.assert_array_equal(
            found.flags[row, :size], example.flags[row, :size]
        )
    assert (found.label == -1).all()
    np.testing.assert_array_equal(found.document, example.document)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.booleans())
def test_of_a_pair_of_segments_sentences_are_those_where_they_meet(seed, apart):
    example = pairs(seed)
    read = TextSpec("sentence_pair", 20, *((0.3, 0.3) if apart else (0.0, 0.0)))
    found = shared_input.share(example, PAIR, read, OF.pad_id)
    is_example(found, 20)
    for row, (length, first) in enumerate(
        zip(example.length, example.first_length, strict=True)
    ):
        starts = np.flatnonzero(example.flags[row] & SENTENCE)
        begin = max([p for p in starts if p < first], default=0)
        end = min([p for p in starts if first < p < length], default=length)
        if not apart and example.label[row] != NEXT:
            end = first
        text = example.token[row, begin:end]
        np.testing.assert_array_equal(found.token[row, : len(text)], text)
        assert found.length[row] == len(text)
        assert found.first_length[row] == first - begin
        assert found.label[row] == example.label[row]


def test_texts_of_one_unit_are_cut_to_what_each_reads():
    example = texts(20, [20, 7, 0, 15], OF)
    base = shared_input.common(asks(TextSpec("stream", 12), TextSpec("stream", 20)), 0)
    assert base == TextSpec("stream", 20)
    found = shared_input.share(example, base, TextSpec("stream", 12), OF.pad_id)
    is_example(found, 12)
    np.testing.assert_array_equal(found.length, [12, 7, 0, 12])
    np.testing.assert_array_equal(found.token, example.token[:, :12])
    same = shared_input.share(example, base, base, OF.pad_id)
    for array, expected in zip(same, example, strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    "reads, expected",
    [
        ([TextSpec("stream", 9), TextSpec("passage", 30)], 1),
        ([PAIR, TextSpec("passage", 40), TextSpec("stream", 18)], 0),
        ([TextSpec("sentence_pair", 20), PAIR], 1),
        ([TextSpec("sentence_pair", 20, 0.3, 0.3), PAIR], 1),
        (
            [
                TextSpec("sentences", 9),
                TextSpec("stream", 18),
                TextSpec("sentences", 11),
            ],
            2,
        ),
        (
            [
                TextSpec("stream", 9, contiguous=True),
                TextSpec("stream", 9, contiguous=True),
            ],
            0,
        ),
    ],
)
def test_the_unit_that_serves_all_is_read(reads, expected):
    assert shared_input.common(asks(*reads), 0) == reads[expected]


@pytest.mark.parametrize(
    "reads",
    [
        [TextSpec("document", 9), TextSpec("stream", 9)],
        [PAIR, PAIR._replace(other_document_rate=0.5)],
        [PAIR, PAIR._replace(length=21)],
        [PAIR, TextSpec("sentence_pair", 20, other_document_rate=0.5)],
        [PAIR, TextSpec("sentence_pair", 19)],
        [TextSpec("stream", 9, contiguous=True), TextSpec("stream", 9)],
        [TextSpec("passage", 9), TextSpec("stream", 9, contiguous=True)],
        [TextSpec("stream", 9), TextSpec("stream", 9, stride=4)],
    ],
)
def test_what_no_text_serves_is_told(reads):
    with pytest.raises(UserError, match=r"\(a: .*; b: .*\)"):
        shared_input.common(asks(*reads), 0)
