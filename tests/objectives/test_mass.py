"""mass: the decoder reads and writes exactly the span, at its own positions."""

import numpy as np
import pytest
from scipy import stats

from research import networks, objectives
from research.contract.errors import UserError
from research.networks.transformer.blocks import Encoded
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab(size=400, sentinels=20)
SIGNIFICANCE = 1e-4
FIRST = int(VOCAB.ordinary_ids[0])


def numbered_texts(num_rows: int, num_raw: int, width: int | None = None):
    """Texts whose tokens encode their positions in the encoder: 1, 2, ..."""
    width = width or num_raw
    token = np.full((num_rows, width), VOCAB.pad_id, np.int32)
    token[:, :num_raw] = FIRST + 1 + np.arange(num_raw)
    return texts(width, [num_raw] * num_rows, VOCAB)._replace(token=token)


def make_batch(num_rows, num_raw, **fields):
    """A batch, the number of each row's targets and the first target's position."""
    objective = objectives.make_objective("mass", **fields)
    text = numbered_texts(num_rows, num_raw)
    batch = objective.corrupt(text, keys(num_rows), VOCAB, num_raw + 2)
    return batch, batch["weight"].sum(axis=1), batch["target"][:, 0] - FIRST


@pytest.mark.parametrize("decoder_start", ["mask", "previous"])
@pytest.mark.parametrize("num_raw", range(1, 10))
def test_every_span_is_aligned(num_raw, decoder_start):
    # Every possible span is checked against the text, position by position.
    batch, size, begin = make_batch(
        400,
        num_raw,
        decoder_start=decoder_start,
        mask_fraction=1.0,
        random_fraction=0.0,
    )
    k = max(round(num_raw / 2), 1)
    assert set(begin.tolist()) == set(range(1, num_raw - k + 2))
    clean = [VOCAB.bos_id, *(FIRST + 1 + np.arange(num_raw)), VOCAB.eos_id]
    for row, start in enumerate(begin):
        assert size[row] == k
        span = range(start, start + k)
        assert batch["target"][row].tolist() == [clean[p] for p in span]
        masked = [VOCAB.mask_id if p in span else n for p, n in enumerate(clean)]
        assert batch["encoder_token"][row].tolist() == masked
        read = [clean[p - 1] for p in span]
        if decoder_start == "mask":
            read[0] = VOCAB.mask_id
        assert batch["decoder_token"][row].tolist() == read
        position = batch["decoder_position"][row]
        assert position.tolist() == [p - 1 for p in span]
        assert (batch["encoder_position"][row] == np.arange(num_raw + 2)).all()
        assert batch["decoder_rank"][row].tolist() == list(range(k))


@pytest.mark.parametrize("num_raw", [1, 2, 11, 12])
def test_with_specials_a_span_may_predict_eos(num_raw):
    """Positions and sizes of the released code: 1 .. l - 1 of l with bos and eos."""
    fields = {"candidates": "all", "span_start": "edges", "decoder_start": "previous"}
    fields |= {"mask_fraction": 1.0, "random_fraction": 0.0}
    batch, size, _ = make_batch(4000, num_raw, **fields)
    length, positions = num_raw + 2, batch["decoder_position"] + 1
    last = length - round(length * 0.5)  # where a span begins that ends the text
    assert set(size) == {round(length * 0.5)} and (batch["weight"] == 1).all()
    assert {*positions[:, 0]} == {*range(1, last + 1)}
    clean = np.array([VOCAB.bos_id, *(FIRST + 1 + np.arange(num_raw)), VOCAB.eos_id])
    np.testing.assert_array_equal(batch["target"], clean[positions])
    masked = np.take_along_axis(batch["encoder_token"], positions, axis=1)
    assert (masked == VOCAB.mask_id).all()
    ends = int((positions[:, 0] == last).sum())
    odds = 0.2 + 0.6 / last if last > 1 else 1.0
    assert stats.binomtest(ends, 4000, odds).pvalue > SIGNIFICANCE


def test_the_decoder_may_attend_to_unmasked_positions_alone():
    fields = {"cross_attention": "unmasked"}
    batch, _, _ = make_batch(50, 12, **fields)
    masked = batch["encoder_token"] == VOCAB.mask_id
    np.testing.assert_array_equal(batch["cross_segment"], ~masked)
    assert (batch["encoder_segment"] == 1).all()  # the encoder itself reads the masks

    class Net:
        def encode(self, group):
            return Encoded(group["token"], group["segment"])

        def states(self, group, encoded):
            self.segment = encoded.segment
            return np.zeros((*group["token"].shape, 4), np.float32)

        def readout(self, states):
            table = np.ones((VOCAB.size, 4), np.float32)
            return networks.Readout(states, table, np.zeros(VOCAB.size), VOCAB.size)

    net = Net()
    objectives.make_objective("mass", **fields).loss(net, batch, None)
    np.testing.assert_array_equal(net.segment, batch["cross_segment"])


def test_a_span_is_mostly_masked_but_always_scored():
    num_rows, num_raw = 400, 60
    few = VOCAB._replace(ordinary_ids=np.arange(300, 320, dtype=np.int32))
    text = numbered_texts(num_rows, num_raw)
    batch = objectives.make_objective("mass").corrupt(
        text, keys(num_rows), few, num_raw + 2
    )
    assert (batch["weight"] == 1).all() and batch["weight"].shape == (num_rows, 30)
    position = batch["target"] - FIRST
    read = np.take_along_axis(batch["encoder_token"], position, axis=1)
    other = read[(read >= 300) & (read < 320)] - 300
    count = [(read == few.mask_id).sum(), len(other), (read == batch["target"]).sum()]
    assert sum(count) == read.size
    expected = np.array([0.8, 0.1, 0.1]) * read.size
    assert stats.chisquare(count, expected).pvalue > SIGNIFICANCE
    assert stats.chisquare(np.bincount(other, minlength=20)).pvalue > SIGNIFICANCE


@pytest.mark.parametrize(("rate", "k"), [(0.01, 1), (0.25, 3), (0.5, 6), (1.0, 12)])
def test_the_rate_sets_the_span(rate, k):
    # From one token (BERT) to the whole text (a language model).
    batch, size, _ = make_batch(3, 12, rate=rate)
    assert batch["target"].shape == (3, k) and (size == k).all()


def test_short_texts_have_short_spans():
    objective = objectives.make_objective("mass")
    text = texts(30, [30, 9, 1, 0], VOCAB)
    batch = objective.corrupt(text, keys(4), VOCAB, 32)
    assert batch["weight"].sum(axis=1).tolist() == [15, 4, 1, 0]


def test_a_separator_in_a_span_is_unchanged_and_not_scored():
    objective = objectives.make_objective(
        "mass", rate=1.0, mask_fraction=1.0, random_fraction=0.0
    )
    text = numbered_texts(1, 6)
    text.token[0, 3] = VOCAB.eos_id
    batch = objective.corrupt(text, keys(1), VOCAB, 8)
    expected = [
        VOCAB.bos_id,
        *[VOCAB.mask_id] * 3,
        VOCAB.eos_id,
        *[VOCAB.mask_id] * 2,
        VOCAB.eos_id,
    ]
    assert batch["encoder_token"][0].tolist() == expected
    assert batch["weight"][0].tolist() == [1, 1, 1, 0, 1, 1]


def test_a_corpus_is_a_token_type():
    objective = objectives.make_objective("mass")
    text = texts(8, [8, 8, 4], VOCAB)._replace(corpus=np.array([0, 2, 1], np.int32))
    batch = objective.corrupt(text, keys(3), VOCAB, 10)
    for prefix in ("encoder_", "decoder_"):
        assert (batch[prefix + "token_type"] == [[0], [2], [1]]).all()


def test_a_network_has_a_token_type_for_each_corpus_or_none():
    objective = objectives.make_objective("mass")
    vocab = VOCAB._replace(num_corpora=3)
    for token_types in (0, 3, 4):
        options = model_options(token_types=token_types)
        networks.build(options, objective.needs(vocab), vocab)
    with pytest.raises(UserError, match=r"token_types is 2, .* writes 3 token types"):
        networks.build(model_options(token_types=2), objective.needs(vocab), vocab)
    networks.build(model_options(token_types=1), objective.needs(VOCAB), VOCAB)
