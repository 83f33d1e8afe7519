"""The random choices of packing have their distributions."""

import numpy as np
import pytest

from research.contract.batch import NEXT, NONADJACENT, OTHER_DOCUMENT
from research.data.rows import TextSpec
from research.data.rows.packing.sentences import find_sentences
from tests.testing import toy_objectives


def even_stream(sizes=(40,) * 300, seed=0, sentence=5):
    """A stream in which all sentences have the same number of tokens."""
    stream = toy_objectives.Stream((sizes,), seed=seed)
    starts = [
        np.arange(start, end - 1, sentence)
        for start, end in zip(
            stream.document_offsets, stream.document_offsets[1:], strict=False
        )
    ]
    stream.sentence_offsets = np.append(np.concatenate(starts), stream.num_tokens)
    return stream


def sentence_numbers(text, made):
    """Of each pair: the last sentence of A and the first one of B."""
    last = np.searchsorted(text.start, made.start + made.length - 1, side="right") - 1
    return last, np.searchsorted(text.start, made.second, side="right") - 1


@pytest.mark.parametrize("unit", ["pair", "sentence_pair"])
def test_labels_state_the_relation_of_the_second_span_to_the_first(unit):
    text = find_sentences(even_stream())
    made = TextSpec(unit, 20, other_document_rate=0.3, nonadjacent_rate=0.3).pairs(text)
    assert not made.truncated
    one, two = sentence_numbers(text, made)
    document = np.searchsorted(text.first, one, side="right")
    same = document == np.searchsorted(text.first, two, side="right")
    np.testing.assert_array_equal(same, made.label != OTHER_DOCUMENT)
    np.testing.assert_array_equal(two == one + 1, made.label == NEXT)
    assert (two[made.label == NONADJACENT] > one[made.label == NONADJACENT] + 1).all()


@pytest.mark.parametrize("unit", ["pair", "sentence_pair"])
@pytest.mark.parametrize(("other", "nonadjacent"), [(0.5, 0.0), (0.3, 0.3), (0.0, 0.0)])
def test_labels_occur_at_their_rates(unit, other, nonadjacent):
    """Among pairs with a choice, within 4.5 standard deviations (p < 1e-5)."""
    text = find_sentences(even_stream((40,) * 500))
    made = TextSpec(
        unit, 20, other_document_rate=other, nonadjacent_rate=nonadjacent
    ).pairs(text)
    begin = np.searchsorted(text.start, made.start)
    document = np.searchsorted(text.first, begin, side="right")
    left = text.first[document] - begin
    free = left > 5  # A and B of at most 4 sentences, one to skip, one for B
    count = free.sum()
    assert count > 300
    for label, rate in (
        (OTHER_DOCUMENT, other),
        (NONADJACENT, nonadjacent),
        (NEXT, 1 - other - nonadjacent),
    ):
        found = (made.label[free] == label).sum()
        assert abs(found - rate * count) <= 4.5 * np.sqrt(count * rate * (1 - rate))
    assert (made.label[left == 1] == OTHER_DOCUMENT).all()


def test_the_first_segment_ends_at_any_sentence_and_other_text_starts_at_any():
    """Chi-square over cuts, starts and hundreds of documents, at level 1e-4."""
    text = find_sentences(even_stream((40,) * 2000))
    made = TextSpec("pair", 25, other_document_rate=0.5).pairs(text)
    full = np.searchsorted(text.start, made.start) % 8 <= 3  # 5 sentences are left
    cuts = np.bincount(made.length[full] // 5, minlength=5)[1:5]
    second = sentence_numbers(text, made)[1][made.label == OTHER_DOCUMENT]
    starts, hundreds = np.bincount(second % 8), np.bincount(second // 800)
    for counts, bound in ((cuts, 21.1), (starts, 29.9), (hundreds, 50.8)):
        expected = counts.sum() / len(counts)
        assert ((counts - expected) ** 2 / expected).sum() < bound


def test_a_fraction_of_documents_is_packed_shorter():
    text = find_sentences(even_stream((400,) * 1500, sentence=1))
    made = TextSpec("pair", 20, short_rate=0.25).pairs(text)
    both = made.length + made.second_length
    document = np.searchsorted(
        text.first, np.searchsorted(text.start, made.start), "right"
    )
    first = np.unique(document, return_index=True)[1]
    target = both[first]
    short = (target < 20).mean()
    rate = 0.25 * 18 / 19  # 2 .. 20, and 20 is not shorter
    assert abs(short - rate) < 4.5 * np.sqrt(rate * (1 - rate) / 1500)
    assert (np.bincount(target, minlength=21)[2:20] > 0).all()


def test_truncation_takes_from_both_ends_equally():
    """The tokens that a span loses at its front are heads of a fair coin."""
    text = find_sentences(even_stream((600,) * 400, sentence=150))
    made = TextSpec("sentence_pair", 60).pairs(text)
    assert (made.length == 30).all() and (made.second_length == 30).all()
    assert made.truncated == 240 * len(made.start)
    for start in (made.start, made.second):
        lost = start - text.start[np.searchsorted(text.start, start, side="right") - 1]
        assert abs(lost.mean() - 60) < 4.5 * np.sqrt(30 / len(lost))
        assert abs(lost.var() - 30) < 4.5 * 30 * np.sqrt(2 / len(lost))


def test_with_an_odd_length_the_first_span_is_longer():
    text = find_sentences(even_stream((20,) * 50, sentence=10))
    made = TextSpec("sentence_pair", 7).pairs(text)
    assert {*made.length} == {4} and {*made.second_length} == {3}


def test_packing_is_a_function_of_text_and_text_spec():
    text = find_sentences(even_stream())
    text_spec = TextSpec("pair", 20, other_document_rate=0.5, short_rate=0.1)
    twice = [text_spec.pairs(text) for _ in range(2)]
    for one, two in zip(*twice, strict=True):
        np.testing.assert_array_equal(one, two)
    other = text_spec.replace(other_document_rate=0.4).pairs(text)
    assert len(other.start) != len(twice[0].start)
