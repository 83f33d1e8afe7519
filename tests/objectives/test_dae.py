"""dae: spans go to the decoder, and the text can be rebuilt from both sides."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import objectives
from research.errors import UserError
from research.objectives.dae import counts, lengths
from tests.testing.example_batches import keys, texts, vocab

OF = vocab(size=900, sentinels=800)
LEVEL = 1e-4


def sides(batch) -> list[tuple[list, list]]:
    """Of each row, the encoder's tokens and the targets, without padding."""
    encoder = zip(batch["encoder_token"], batch["encoder_segment"] > 0, strict=True)
    target = zip(batch["target"], batch["weight"] > 0, strict=True)
    return [
        (list(token[here]), list(answer[scored]))
        for (token, here), (answer, scored) in zip(encoder, target, strict=True)
    ]


def spans_of(tokens: list, of) -> dict[int, list]:
    """What follows each sentinel, and under -1 what is before the first."""
    found, name = {-1: []}, -1
    for token in tokens:
        if token in of.sentinel_ids:
            name = token
            found[name] = []
        else:
            found[name].append(token)
    return found


def invert(batch, of) -> list[list]:
    """The text of each row, from what its encoder reads and its decoder writes."""
    texts = []
    for encoder, target in sides(batch):
        if not encoder:
            texts.append([])
            continue
        assert encoder.pop() == target.pop() == of.eos_id
        clear, hidden = spans_of(encoder, of), spans_of(target, of)
        names = [name for name in clear if name >= 0]
        assert names == list(of.sentinel_ids[: len(names)])
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
    assert lengths(length, rate, span) == (raw, target)


@pytest.mark.parametrize(("num_raw", "hidden"), [(10, 2), (30, 4), (50, 8), (70, 10)])
def test_half_way_cases_go_to_the_even_one(num_raw, hidden):
    assert counts(num_raw, 0.15, 3.0).hidden == hidden


@settings(deadline=None, max_examples=150)
@given(
    st.integers(4, 400),
    st.floats(0.01, 0.99),
    st.floats(1, 20),
    st.lists(st.floats(0, 1), max_size=4),
    st.integers(0, 99),
)
def test_the_text_can_be_rebuilt(length, rate, span, shares, seed):
    objective = objectives.make_objective("dae", rate=rate, span=span)
    raw = objective.text_spec(length).length
    num_raw = [raw, 0, 1, 2, *(round(share * raw) for share in shares)]
    example = texts(raw, np.minimum(num_raw, raw), OF, seed=seed)
    batch = objective.corrupt(example, keys(len(example.length), seed), OF, length)
    expected = [
        list(token[:n]) for token, n in zip(example.token, example.length, strict=True)
    ]
    assert invert(batch, OF) == expected


@pytest.mark.parametrize("rate", [0.15, 0.5])
@pytest.mark.parametrize("length", [64, 352, 640])
def test_a_full_row_fills_both_sides(length, rate):
    # 352 and 640 are among the lengths at which published code disagrees with itself.
    objective = objectives.make_objective("dae", rate=rate)
    raw, target = lengths(length, rate, 3.0)
    batch = objective.corrupt(texts(raw, [raw] * 4, OF), keys(4), OF, length)
    assert (batch["encoder_segment"].sum(axis=1) == length).all()
    assert (batch["weight"].sum(axis=1) == target).all()


def test_each_row_hides_by_its_own_length():
    objective = objectives.make_objective("dae")
    num_raw = np.arange(2, 142)
    batch = objective.corrupt(texts(141, num_raw, OF), keys(140), OF, 128)
    for (_, target), n in zip(sides(batch), num_raw, strict=True):
        hidden = min(max(round(0.15 * n), 1), n - 1)
        spans = max(round(hidden / 3), 1)
        assert len(target) == hidden + spans + 1
        assert sum(token in OF.sentinel_ids for token in target) == spans


def test_the_decoder_reads_targets_one_place_late():
    objective = objectives.make_objective("dae")
    batch = objective.corrupt(texts(70, [70, 40, 0], OF), keys(3), OF, 64)
    for row in range(3):
        count = int(batch["weight"][row].sum())
        before = [OF.pad_id, *batch["target"][row, : count - 1]][:count]
        np.testing.assert_array_equal(batch["decoder_token"][row, :count], before)


def test_spans_start_in_the_clear_and_all_cuts_are_equally_likely():
    # 8 tokens, 3 hidden in 2 spans: 2 ways to cut the spans, 4 to cut the rest.
    objective = objectives.make_objective("dae", rate=0.375, span=1.5)
    rows = 4000
    text = np.arange(8) + OF.ordinary_ids[0]
    example = texts(8, [8] * rows, OF)._replace(token=np.tile(text, (rows, 1)))
    length = next(n for n in range(4, 20) if objective.text_spec(n).length == 8)
    batch = objective.corrupt(example, keys(rows), OF, length)
    cuts, count = np.unique(batch["encoder_token"], axis=0, return_counts=True)
    assert len(cuts) == 8
    assert (cuts[:, 0] == text[0]).all()
    assert stats.chisquare(count).pvalue > LEVEL


def test_too_few_sentinels_say_how_many_are_needed():
    objective = objectives.make_objective("dae", rate=0.5)
    example = texts(objective.text_spec(1024).length, [9], OF)
    few = OF._replace(sentinel_ids=OF.sentinel_ids[:100])
    needed = int(counts(example.token.shape[1], 0.5, 3.0).spans)
    with pytest.raises(UserError, match=f"needs {needed} sentinels.*100"):
        objective.corrupt(example, keys(1), few, 1024)
    objective.corrupt(
        example, keys(1), OF._replace(sentinel_ids=OF.sentinel_ids[:needed]), 1024
    )
