"""mass: the decoder has the span, and nothing but the span, where the text has it."""

import numpy as np
import pytest
from scipy import stats

from research import objectives
from research.errors import UserError
from tests.testing.example_batches import keys, texts, vocab

OF = vocab(size=400, sentinels=20)
LEVEL = 1e-4
FIRST = int(OF.ordinary_ids[0])


def counted(num_rows: int, num_raw: int, width: int | None = None):
    """Texts whose tokens say their places in the encoder: 1, 2, ..."""
    width = width or num_raw
    token = np.full((num_rows, width), OF.pad_id, np.int32)
    token[:, :num_raw] = FIRST + 1 + np.arange(num_raw)
    return texts(width, [num_raw] * num_rows, OF)._replace(token=token)


def made(num_rows, num_raw, **fields):
    """A batch, the number of each row's targets and the first target's place."""
    objective = objectives.make_objective("mass", **fields)
    text = counted(num_rows, num_raw)
    batch = objective.corrupt(text, keys(num_rows), OF, num_raw + 2)
    return batch, batch["weight"].sum(axis=1), batch["target"][:, 0] - FIRST


@pytest.mark.parametrize("first", ["mask", "previous"])
@pytest.mark.parametrize("num_raw", range(1, 10))
def test_every_span_is_aligned(num_raw, first):
    # All spans there are: each is checked against the text, place by place.
    batch, size, begin = made(400, num_raw, first=first, mask=1.0, random=0.0)
    k = max(round(num_raw / 2), 1)
    assert set(begin.tolist()) == set(range(1, num_raw - k + 2))
    clean = [OF.bos_id, *(FIRST + 1 + np.arange(num_raw)), OF.eos_id]
    for row, start in enumerate(begin):
        assert size[row] == k
        span = range(start, start + k)
        assert batch["target"][row].tolist() == [clean[p] for p in span]
        seen = [OF.mask_id if p in span else token for p, token in enumerate(clean)]
        assert batch["encoder_token"][row].tolist() == seen
        read = [clean[p - 1] for p in span]
        if first == "mask":
            read[0] = OF.mask_id
        assert batch["decoder_token"][row].tolist() == read
        place = batch["decoder_position"][row]
        assert place.tolist() == [p - 1 for p in span]
        assert (batch["encoder_position"][row] == np.arange(num_raw + 2)).all()
        assert batch["decoder_rank"][row].tolist() == list(range(k))


@pytest.mark.parametrize("start", ["uniform", "edges"])
def test_where_spans_begin(start):
    num_rows, num_raw = 8000, 12
    _, _, begin = made(num_rows, num_raw, start=start)
    odds = np.full(7, 1 / 7)
    if start == "edges":
        odds *= 0.6
        odds[[0, -1]] += 0.2
    count = np.bincount(begin - 1, minlength=7)
    assert stats.chisquare(count, odds * num_rows).pvalue > LEVEL


def test_a_span_is_mostly_masked_but_always_scored():
    num_rows, num_raw = 400, 60
    of = OF._replace(ordinary_ids=np.arange(300, 320, dtype=np.int32))
    text = counted(num_rows, num_raw)
    batch = objectives.make_objective("mass").corrupt(
        text, keys(num_rows), of, num_raw + 2
    )
    assert (batch["weight"] == 1).all() and batch["weight"].shape == (num_rows, 30)
    place = batch["target"] - FIRST
    there = np.take_along_axis(batch["encoder_token"], place, axis=1)
    other = there[(there >= 300) & (there < 320)] - 300
    count = [(there == of.mask_id).sum(), len(other), (there == batch["target"]).sum()]
    assert sum(count) == there.size
    expected = np.array([0.8, 0.1, 0.1]) * there.size
    assert stats.chisquare(count, expected).pvalue > LEVEL
    assert stats.chisquare(np.bincount(other, minlength=20)).pvalue > LEVEL


@pytest.mark.parametrize(("rate", "k"), [(0.01, 1), (0.25, 3), (0.5, 6), (1.0, 12)])
def test_the_share_sets_the_span(rate, k):
    # From one token (BERT) to the whole text (a language model).
    batch, size, _ = made(3, 12, rate=rate)
    assert batch["target"].shape == (3, k) and (size == k).all()


def test_short_texts_have_short_spans():
    objective = objectives.make_objective("mass")
    text = texts(30, [30, 9, 1, 0], OF)
    batch = objective.corrupt(text, keys(4), OF, 32)
    assert batch["weight"].sum(axis=1).tolist() == [15, 4, 1, 0]


def test_a_separator_in_a_span_stays_and_is_not_scored():
    objective = objectives.make_objective("mass", rate=1.0, mask=1.0, random=0.0)
    text = counted(1, 6)
    text.token[0, 3] = OF.eos_id
    batch = objective.corrupt(text, keys(1), OF, 8)
    seen = [OF.bos_id, *[OF.mask_id] * 3, OF.eos_id, *[OF.mask_id] * 2, OF.eos_id]
    assert batch["encoder_token"][0].tolist() == seen
    assert batch["weight"][0].tolist() == [1, 1, 1, 0, 1, 1]


def test_a_corpus_is_a_token_type():
    objective = objectives.make_objective("mass")
    text = texts(8, [8, 8, 4], OF)._replace(corpus=np.array([0, 2, 1], np.int32))
    batch = objective.corrupt(text, keys(3), OF, 10)
    for side in ("encoder_", "decoder_"):
        assert (batch[side + "token_type"] == [[0], [2], [1]]).all()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (dict(rate=0.0), "rate is above 0 and at most 1"),
        (dict(mask=0.9, random=0.2), "together at most 1"),
        (dict(start="middle"), "start is one of uniform, edges"),
        (dict(first="bos"), "first is one of mask, previous"),
        (dict(text="pair"), "text is one of stream"),
    ],
)
def test_fields_that_do_not_fit_are_told(fields, told):
    with pytest.raises(UserError, match=told):
        objectives.make_objective("mass", **fields)
