"""Relations of two spans: the laws of labels, what is swapped, how rows are laid out.

Chi-square tests are at fixed seeds; each would fail by chance for 1 seed in 10,000.
"""

import numpy as np
import pytest
from scipy import stats

from research.batch import NEXT, NONADJACENT, OTHER_DOCUMENT
from research.objectives.inputs import input_format, sentence_pairs
from tests.testing.example_batches import keys, texts, vocab

LEVEL = 1e-4
OF = vocab()


def pairs(num_rows, *, other=0.0, far=0.0, seed=0):
    """Pairs of 1 to 12 tokens each, with the labels that reading gives them."""
    rng = np.random.default_rng(seed)
    first, second = rng.integers(1, 13, (2, num_rows)).astype(np.int32)
    label = rng.choice(3, num_rows, p=[1 - other - far, other, far]).astype(np.int32)
    return texts(24, first + second, OF)._replace(first_length=first, label=label)


def ask(relation, num_rows=6000):
    reads = sentence_pairs.text_spec(relation, "sentence_pair", 27, 0.1)
    example = pairs(
        num_rows, other=reads.other_document_rate, far=reads.nonadjacent_rate
    )
    return example, sentence_pairs.ask(relation, example, keys(num_rows))


def counts(label) -> np.ndarray:
    return np.bincount(label)


def test_what_is_read():
    read = sentence_pairs.text_spec("none", "segment_pair", 128, 0.1)
    assert read[:5] == ("pair", 125, 0.5, 0.0, 0.1)
    assert sentence_pairs.text_spec("nsp", "sentence_pair", 128, 0.1).short_rate == 0
    shares = {
        name: sentence_pairs.text_spec(name, "sentence_pair", 128, 0.1)[2:4]
        for name in sentence_pairs.ANSWERS
    }
    assert shares == {
        "nsp": (0.5, 0.0),
        "sop": (0.0, 0.0),
        "sop_released": (0.0, 0.0),
        "structural": (1 / 3, 0.0),
        "distance": (1 / 3, 1 / 3),
    }


def test_nsp_tells_another_document_and_swaps_nothing():
    example, asked = ask("nsp")
    np.testing.assert_array_equal(asked.label, example.label == OTHER_DOCUMENT)
    assert asked.label_weight.all() and not asked.swapped.any()


def test_sop_swaps_half_of_the_neighbours():
    _, asked = ask("sop")
    np.testing.assert_array_equal(asked.label, asked.swapped)
    assert asked.label_weight.all()
    assert stats.chisquare(counts(asked.label)).pvalue > LEVEL


@pytest.mark.parametrize(("name", "leak"), [("sop", False), ("sop_released", True)])
def test_sop_of_two_documents_has_an_answer_in_the_released_code_alone(name, leak):
    example = pairs(3000, other=0.3)
    asked = sentence_pairs.ask(name, example, keys(3000))
    apart = example.label == OTHER_DOCUMENT
    assert not asked.swapped[apart].any()
    assert (asked.label_weight[apart] == leak).all() and asked.label_weight[
        ~apart
    ].all()
    assert (asked.label[apart] == leak).all()


def test_structural_is_next_before_or_random_in_equal_shares():
    example, asked = ask("structural")
    assert asked.label_weight.all()
    assert stats.chisquare(counts(asked.label)).pvalue > LEVEL
    np.testing.assert_array_equal(asked.label == 2, example.label == OTHER_DOCUMENT)
    np.testing.assert_array_equal(asked.label == 1, asked.swapped)


def test_distance_is_near_far_or_elsewhere_in_equal_shares():
    example, asked = ask("distance")
    answer = {NEXT: 0, NONADJACENT: 1, OTHER_DOCUMENT: 2}
    assert asked.label.tolist() == [answer[label] for label in example.label]
    assert stats.chisquare(counts(asked.label)).pvalue > LEVEL
    assert not asked.swapped.any()


@pytest.mark.parametrize("relation", sentence_pairs.ANSWERS)
def test_one_span_alone_has_no_answer(relation):
    example = pairs(60, other=0.3, far=0.3)
    example = example._replace(first_length=example.length)
    example.label[::2] = -1
    example.length[:5] = example.first_length[:5] = 0
    asked = sentence_pairs.ask(relation, example, keys(60))
    assert not asked.label_weight.any() and not asked.label.any()
    assert not asked.swapped.any()


@pytest.mark.parametrize("swap", [False, True])
def test_a_row_is_bos_a_eos_b_eos(swap):
    example = pairs(40)
    example.first_length[:3] = example.length[:3]  # one span
    example.length[3] = example.first_length[3] = 0  # nothing
    text = input_format.pair(example, OF, 30, np.full(40, swap))
    for row in range(40):
        both = np.split(
            example.token[row, : example.length[row]],
            example.first_length[row : row + 1],
        )
        spans = [span.tolist() for span in both if len(span)]
        spans = spans[::-1] if swap else spans
        expected, kind = [], []
        for number, span in enumerate(spans):
            expected += [*([] if number else [OF.bos_id]), *span, OF.eos_id]
            kind += [number] * (len(expected) - len(kind))
        padding = 30 - len(expected)
        assert text.length[row] == len(expected)
        assert text.token[row].tolist() == expected + [OF.pad_id] * padding
        assert text.token_type[row].tolist() == kind + [0] * padding


def test_flags_move_with_their_tokens():
    example = pairs(40)
    example.token[:] = np.arange(24) + 30  # a token tells its place
    text = input_format.pair(example, OF, 30, np.arange(40) % 2 == 0)
    row, place = np.nonzero(~OF.is_special[text.token])
    there = example.flags[row, text.token[row, place] - 30]
    np.testing.assert_array_equal(text.flags[row, place], there)


def test_pairs_that_are_too_long_lose_their_end():
    example = pairs(40)
    text = input_format.pair(example, OF, 15)
    assert text.length.max() == 15
    at = text.length - 1
    assert (text.token[np.arange(40), at] == OF.eos_id).all()
