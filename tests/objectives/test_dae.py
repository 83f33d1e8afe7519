"""dae: hidden spans are the target; encoder and target together give the text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research import objectives
from research.contract.errors import UserError
from research.objectives.dae.dae import span_corruption_lengths
from research.objectives.noise.spans import span_counts
from tests.testing.encoder_decoder import encoder_and_target_lists
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab(size=900, sentinels=800)


def spans_of(tokens: list, vocab) -> dict[int, list]:
    """Sentinel -> the tokens after it; -1 -> those before the first sentinel."""
    found, name = {-1: []}, -1
    for token in tokens:
        if token in vocab.sentinel_ids:
            name = token
            found[name] = []
        else:
            found[name].append(token)
    return found


def reconstruct(batch, vocab) -> list[list]:
    """The text of each row, from its encoder tokens and its target."""
    texts = []
    for encoder, target in encoder_and_target_lists(batch):
        if not encoder:
            texts.append([])
            continue
        assert encoder.pop() == target.pop() == vocab.eos_id
        clear, hidden = spans_of(encoder, vocab), spans_of(target, vocab)
        names = [name for name in clear if name >= 0]
        assert names == list(vocab.sentinel_ids[: len(names)])
        assert [name for name in hidden if name >= 0] == names
        assert not hidden.pop(-1)
        text = clear.pop(-1)
        for name in names:
            text += hidden[name] + clear[name]
        texts.append(text)
    return texts


@pytest.mark.parametrize(
    ("length", "rate", "span", "raw", "target"),
    [
        (64, 0.15, 3.0, 70, 14),
        (128, 0.15, 3.0, 141, 29),
        (256, 0.15, 3.0, 284, 58),
        (512, 0.15, 3.0, 568, 114),
        (1024, 0.15, 3.0, 1137, 229),
        (512, 0.15, 2.0, 552, 126),
        (512, 0.15, 10.0, 591, 99),
        (512, 0.5, 3.0, 766, 512),
    ],
)
def test_lengths_are_the_published_ones(length, rate, span, raw, target):
    assert span_corruption_lengths(length, rate, span) == (raw, target)


@pytest.mark.parametrize(("num_raw", "hidden"), [(10, 2), (30, 4), (50, 8), (70, 10)])
def test_ties_round_to_even(num_raw, hidden):
    assert span_counts(num_raw, 0.15, 3.0).hidden == hidden


@settings(deadline=None, max_examples=150)
@given(
    st.integers(4, 400),
    st.floats(0.01, 0.99),
    st.floats(1, 20),
    st.lists(st.floats(0, 1), max_size=4),
    st.integers(0, 99),
)
def test_the_text_can_be_reconstructed(length, rate, span, fractions, seed):
    objective = objectives.make_objective("dae", rate=rate, mean_span=span)
    raw = objective.text_spec(length).length
    num_raw = [raw, 0, 1, 2, *(round(fraction * raw) for fraction in fractions)]
    example = texts(raw, np.minimum(num_raw, raw), VOCAB, seed=seed)
    batch = objective.corrupt(example, keys(len(example.length), seed), VOCAB, length)
    expected = [
        list(token[:n]) for token, n in zip(example.token, example.length, strict=True)
    ]
    assert reconstruct(batch, VOCAB) == expected


@pytest.mark.parametrize("rate", [0.15, 0.5])
@pytest.mark.parametrize("length", [64, 352, 640])
def test_a_full_row_fills_both_sides(length, rate):
    # At 352 and 640 among others, published code is inconsistent.
    objective = objectives.make_objective("dae", rate=rate)
    raw, target = span_corruption_lengths(length, rate, 3.0)
    batch = objective.corrupt(texts(raw, [raw] * 4, VOCAB), keys(4), VOCAB, length)
    assert (batch["encoder_segment"].sum(axis=1) == length).all()
    assert (batch["weight"].sum(axis=1) == target).all()


def test_the_decoder_reads_targets_one_position_late():
    objective = objectives.make_objective("dae")
    batch = objective.corrupt(texts(70, [70, 40, 0], VOCAB), keys(3), VOCAB, 64)
    for row in range(3):
        count = int(batch["weight"][row].sum())
        before = [VOCAB.pad_id, *batch["target"][row, : count - 1]][:count]
        np.testing.assert_array_equal(batch["decoder_token"][row, :count], before)


def test_too_few_sentinels_are_an_error_with_the_number_needed():
    objective = objectives.make_objective("dae", rate=0.5)
    example = texts(objective.text_spec(1024).length, [9], VOCAB)
    few = VOCAB._replace(sentinel_ids=VOCAB.sentinel_ids[:100])
    needed = int(span_counts(example.token.shape[1], 0.5, 3.0).spans)
    with pytest.raises(UserError, match=f"needs {needed} sentinels.*100"):
        objective.corrupt(example, keys(1), few, 1024)
    objective.corrupt(
        example, keys(1), VOCAB._replace(sentinel_ids=VOCAB.sentinel_ids[:needed]), 1024
    )
