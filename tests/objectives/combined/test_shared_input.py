"""shared_input: the part of one text that each of several objectives derives."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.contract.batch import NEXT, NONADJACENT, OTHER_DOCUMENT, SENTENCE
from research.contract.errors import UserError
from research.data.rows import TextSpec
from research.objectives.combined import shared_input
from tests.testing.example_batches import texts, vocab

VOCAB = vocab()
LENGTHS = st.integers(5, 30)
RATES = ("other_document_rate", "nonadjacent_rate")
PAIR = TextSpec(
    "pair", 20, other_document_rate=0.3, nonadjacent_rate=0.3, short_rate=0.1
)


def make_parts(*specs):
    """Parts a, b, ... that read texts of these specs, whatever the length."""
    return {
        name: SimpleNamespace(text_spec=lambda length, spec=spec: spec)
        for name, spec in zip("abcdef", specs, strict=False)
    }


def make_pairs(seed=0, count=40):
    """Pairs of segments of one or more sentences; some have one segment."""
    rng = np.random.default_rng(seed)
    length = rng.integers(0, 21, count).astype(np.int32)
    example = texts(20, length, VOCAB, seed=seed)
    first = rng.integers(1, np.maximum(length, 1) + 1).astype(np.int32)
    first = np.minimum(first, length)
    flags = example.flags | (SENTENCE * (rng.random(example.flags.shape) < 0.2))
    flags[np.arange(count), np.minimum(first, 19)] |= SENTENCE
    flags[:, 0] |= SENTENCE
    valid = np.arange(20) < length[:, None]
    return example._replace(
        flags=np.where(valid, flags, 0).astype(np.uint8),
        first_length=first,
        label=rng.choice([NEXT, OTHER_DOCUMENT, NONADJACENT], count).astype(np.int32),
    )


def check_example(example, width):
    beyond = np.arange(width) >= example.length[:, None]
    assert example.token.shape == example.flags.shape == beyond.shape
    assert (example.token[beyond] == VOCAB.pad_id).all() and not example.flags[
        beyond
    ].any()
    assert (example.first_length <= example.length).all()
    assert (example.token.dtype, example.flags.dtype) == (np.int32, np.uint8)
    assert example.length.dtype == example.first_length.dtype == np.int32


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 10**6), st.sampled_from(["passage", "stream"]), st.integers(5, 30)
)
def test_a_passage_from_a_pair_is_both_spans_or_the_first(seed, unit, length):
    example = make_pairs(seed)
    found = shared_input.derive_example(
        example, PAIR, TextSpec(unit, length), VOCAB.pad_id
    )
    check_example(found, min(length, 20))
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
def test_sentences_from_a_pair_are_those_at_its_boundary(seed, nonadjacent):
    example = make_pairs(seed)
    rates = (0.3, 0.3) if nonadjacent else (0.0, 0.0)
    spec = TextSpec("sentence_pair", 20, **dict(zip(RATES, rates, strict=True)))
    found = shared_input.derive_example(example, PAIR, spec, VOCAB.pad_id)
    check_example(found, 20)
    for row, (length, first) in enumerate(
        zip(example.length, example.first_length, strict=True)
    ):
        starts = np.flatnonzero(example.flags[row] & SENTENCE)
        begin = max([p for p in starts if p < first], default=0)
        end = min([p for p in starts if first < p < length], default=length)
        if not nonadjacent and example.label[row] != NEXT:
            end = first
        text = example.token[row, begin:end]
        np.testing.assert_array_equal(found.token[row, : len(text)], text)
        assert found.length[row] == len(text)
        assert found.first_length[row] == first - begin
        assert found.label[row] == example.label[row]


def test_texts_of_one_unit_are_truncated():
    example = texts(20, [20, 7, 0, 15], VOCAB)
    regions = {"regions": np.arange(24).reshape(4, 2, 3)}  # of documents
    example = example._replace(arrays=example.arrays | regions)
    base = shared_input.common_text_spec(
        make_parts(TextSpec("stream", 12), TextSpec("stream", 20)), 0
    )
    assert base == TextSpec("stream", 20, random_start=True)
    found = shared_input.derive_example(
        example, base, TextSpec("stream", 12), VOCAB.pad_id
    )
    check_example(found, 12)
    np.testing.assert_array_equal(found.length, [12, 7, 0, 12])
    np.testing.assert_array_equal(found.token, example.token[:, :12])
    tags = example.arrays["tags"][:, :12]
    np.testing.assert_array_equal(found.arrays["tags"], tags)
    np.testing.assert_array_equal(found.arrays["regions"], regions["regions"])
    same = shared_input.derive_example(example, base, base, VOCAB.pad_id)
    for array, expected in zip(same, example, strict=True):
        np.testing.assert_equal(array, expected)


def test_rows_start_at_random_tokens_where_texts_of_a_stream_differ_in_length():
    short, long = TextSpec("stream", 12), TextSpec("stream", 20)
    mixed = shared_input.common_text_spec(make_parts(short, long, short), 0)
    assert mixed == long.replace(random_start=True)
    for specs in [(mixed, long), (long, mixed), (mixed, short)]:
        assert shared_input.common_text_spec(make_parts(*specs), 0) == mixed
    assert shared_input.common_text_spec(make_parts(mixed, PAIR), 0) == PAIR
    assert shared_input.common_text_spec(make_parts(long, long), 0) == long
    recurrent = [spec.replace(contiguous=True) for spec in (short, long)]
    assert shared_input.common_text_spec(make_parts(*recurrent), 0) == recurrent[1]


@pytest.mark.parametrize(
    "specs, expected",
    [
        ([TextSpec("stream", 9), TextSpec("passage", 30)], 1),
        ([PAIR, TextSpec("passage", 40), TextSpec("stream", 18)], 0),
        ([TextSpec("sentence_pair", 20), PAIR], 1),
        ([TextSpec("sentence_pair", 20, **dict.fromkeys(RATES, 0.3)), PAIR], 1),
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
def test_the_common_unit_contains_all_others(specs, expected):
    assert shared_input.common_text_spec(make_parts(*specs), 0) == specs[expected]


@pytest.mark.parametrize(
    "specs",
    [
        [TextSpec("document", 9), TextSpec("stream", 9)],
        [PAIR, PAIR.replace(other_document_rate=0.5)],
        [PAIR, PAIR.replace(length=21)],
        [PAIR, TextSpec("sentence_pair", 20, other_document_rate=0.5)],
        [PAIR, TextSpec("sentence_pair", 19)],
        [TextSpec("stream", 9, contiguous=True), TextSpec("stream", 9)],
        [TextSpec("passage", 9), TextSpec("stream", 9, contiguous=True)],
        [TextSpec("sentence_pair", 20), TextSpec("stream", 9)],
        [TextSpec("stream", 9), TextSpec("stream", 9, stride=4)],
    ],
)
def test_specs_without_a_common_text_are_an_error(specs):
    with pytest.raises(UserError, match=r"\(a: .*; b: .*\)"):
        shared_input.common_text_spec(make_parts(*specs), 0)


def test_one_of_the_texts_may_have_labels():
    plain, labelled = TextSpec("document", 20), TextSpec("document", 12, label="class")
    for specs in ((plain, labelled), (labelled, plain)):
        common = shared_input.common_text_spec(make_parts(*specs), 0)
        assert common == TextSpec("document", 20, label="class")
    with pytest.raises(UserError, match="different types"):
        shared_input.common_text_spec(
            make_parts(labelled, plain.replace(label="number")), 0
        )
