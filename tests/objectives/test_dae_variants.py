"""dae: each row of T5's tables has its noise mask, replacement and target."""

from itertools import pairwise

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import networks, objectives
from research.contract.errors import UserError
from research.objectives.dae.dae import (
    NOISE_MASKS,
    REPLACEMENTS,
    TARGETS,
    span_corruption_lengths,
)
from tests.testing.encoder_decoder import encoder_and_target_lists
from tests.testing.example_batches import keys, texts, vocab

VOCAB = vocab(size=1400, sentinels=800)
SIGNIFICANCE = 1e-4


def legal(noise_mask, replacement, target) -> bool:
    return (noise_mask != "all" or replacement == "shuffle") and (
        replacement != "shuffle" or target == "whole"
    )


VARIANTS = [
    dict(noise_mask=noise_mask, replacement=replacement, target=target)
    for noise_mask in NOISE_MASKS
    for replacement in REPLACEMENTS
    for target in TARGETS
    if legal(noise_mask, replacement, target)
]
variants = st.sampled_from(VARIANTS)


def numbered_texts(num_rows: int, width: int):
    """Texts whose n-th token is the n-th ordinary id."""
    token = np.tile(VOCAB.ordinary_ids[:width], (num_rows, 1))
    return texts(width, [width] * num_rows, VOCAB)._replace(token=token)


def length_for(objective, raw: int) -> int:
    """The encoder length at which an objective reads `raw` tokens."""
    return next(n for n in range(3, 999) if objective.text_spec(n).length == raw)


def runs(tokens: list) -> tuple[bool, list[list]]:
    """Whether the tokens begin with a sentinel, and the runs between sentinels.

    Sentinels are checked to be in order, without two in a row.
    """
    cut = [n for n, token in enumerate(tokens) if token in VOCAB.sentinel_ids]
    assert [tokens[n] for n in cut] == list(VOCAB.sentinel_ids[: len(cut)])
    assert (np.diff(cut) > 1).all()
    edges = [-1, *cut, len(tokens)]
    between = [tokens[a + 1 : b] for a, b in pairwise(edges)]
    return bool(tokens and cut[:1] == [0]), [run for run in between if run]


def reconstruct(encoder: list, target: list) -> list:
    """The text: clear runs and hidden runs alternate."""
    starts_hidden, clear = runs(encoder)
    starts_clear, hidden = runs(target)
    assert starts_hidden != starts_clear or not target
    both = (hidden, clear) if starts_hidden else (clear, hidden)
    text = []
    for n in range(max(map(len, both))):
        text += [token for run in both for token in (run[n : n + 1] or [[]])[0]]
    return text


@settings(deadline=None, max_examples=150)
@given(
    st.integers(5, 300),
    st.sampled_from(["spans", "iid", "prefix"]),
    st.floats(0.01, 0.99),
    st.floats(1, 20),
    st.sampled_from(["", "R", "S", "X"]),
    st.integers(0, 99),
)
def test_encoder_and_target_reconstruct_the_text(
    length, noise_mask, rate, span, mode, seed
):
    rate = min(rate, 0.5) if noise_mask == "prefix" else rate
    objective = objectives.make_objective(
        "dae", noise_mask=noise_mask, rate=rate, mean_span=span, mode=mode
    )
    raw = objective.text_spec(length).length
    num_raw = [raw, 0, 1, 2, raw - 1, raw // 2]
    example = texts(raw, np.minimum(num_raw, raw), VOCAB, seed=seed)
    batch = objective.corrupt(example, keys(6, seed), VOCAB, length)
    rows = zip(
        encoder_and_target_lists(batch), example.token, example.length, strict=True
    )
    for (encoder, target), token, n in rows:
        if not n:
            assert not encoder and not target
            continue
        if mode:
            assert encoder.pop(0) == VOCAB.sentinel_ids[-("RSX".index(mode) + 1)]
        assert encoder.pop() == target.pop() == VOCAB.eos_id
        assert reconstruct(encoder, target) == token[:n].tolist()


@settings(deadline=None, max_examples=150)
@given(variants, st.integers(4, 200), st.floats(0.01, 0.5), st.integers(0, 99))
def test_encoder_and_target_are_consistent(fields, length, rate, seed):
    objective = objectives.make_objective("dae", rate=rate, **fields)
    raw = objective.text_spec(length).length
    example = texts(raw, [raw, max(raw // 3, 1), 1], VOCAB, seed=seed, separators=0.1)
    batch = objective.corrupt(example, keys(3, seed), VOCAB, length)
    for row, (encoder, target) in enumerate(encoder_and_target_lists(batch)):
        text = example.token[row, : example.length[row]].tolist()
        assert encoder.pop() == target.pop() == VOCAB.eos_id
        if fields["target"] == "whole":
            assert target == text
        if fields["replacement"] == "sentinel" and fields["target"] == "spans":
            assert reconstruct(encoder, target) == text
        if fields["replacement"] == "drop" and fields["target"] == "spans":
            assert sorted(encoder + target) == sorted(text)
        if fields["replacement"] == "shuffle":
            assert sorted(encoder) == sorted(text)
        if fields["replacement"] in ("mask", "bert", "shuffle"):
            assert len(encoder) == len(text)
            special = VOCAB.is_special[text]
            assert (np.array(encoder)[special] == np.array(text)[special]).all()
        if fields["replacement"] == "mask":
            assert all(
                a in (b, VOCAB.mask_id) for a, b in zip(encoder, text, strict=True)
            )
            hidden = [
                b for a, b in zip(encoder, text, strict=True) if a == VOCAB.mask_id
            ]
            assert target in (hidden, text)


@pytest.mark.parametrize(
    ("fields", "raw", "target"),
    [
        # T5's: one token of the input length is reserved for eos.
        (dict(noise_mask="iid", replacement="mask", target="whole"), 511, 512),
        (dict(noise_mask="iid", replacement="bert", target="whole"), 511, 512),
        (dict(noise_mask="all", replacement="shuffle", target="whole"), 511, 512),
        (dict(noise_mask="prefix", replacement="drop", rate=0.5), 511, 511),
        (dict(noise_mask="prefix", rate=0.25), 511, 257),
        (
            dict(noise_mask="spans", mode="R"),
            span_corruption_lengths(511, 0.15, 3.0).raw,
            114,
        ),
    ],
)
def test_lengths_of_the_variants(fields, raw, target):
    objective = objectives.make_objective("dae", **fields)
    assert objective.text_spec(512).length == raw
    assert objective.batch_spec(512)["target"].shape == (target,)


def test_a_text_may_start_or_end_hidden_or_clear():
    objective = objectives.make_objective("dae", noise_mask="iid", rate=0.5)
    batch = objective.corrupt(
        numbered_texts(64, 6), keys(64), VOCAB, length_for(objective, 6)
    )
    first = VOCAB.sentinel_ids[0]
    found = set()
    for encoder, target in encoder_and_target_lists(batch):
        starts_hidden, ends_hidden = (
            encoder[0] == first,
            encoder[-2] in VOCAB.sentinel_ids,
        )
        if len(target) > 1:
            assert (target[0] == first) != starts_hidden
            assert (target[-2] in VOCAB.sentinel_ids) != ends_hidden
            found.add((starts_hidden, ends_hidden))
    assert len(found) == 4


def test_bert_style_is_nine_masks_to_one_random_token():
    rows, raw = 300, 200
    objective = objectives.make_objective(
        "dae", noise_mask="iid", replacement="bert", target="whole"
    )
    example = numbered_texts(rows, raw)._replace(
        token=np.full((rows, raw), 810, np.int32)
    )
    few = VOCAB._replace(ordinary_ids=np.arange(900, 920, dtype=np.int32))
    batch = objective.corrupt(example, keys(rows), few, raw + 1)
    read = batch["encoder_token"][:, :-1]
    masks = (read == VOCAB.mask_id).sum()
    other = read[(read != VOCAB.mask_id) & (read != 810)]
    assert (
        stats.binomtest(int(masks), int(masks) + len(other), 0.9).pvalue > SIGNIFICANCE
    )
    assert (
        stats.binomtest(int(masks) + len(other), read.size, 0.15).pvalue > SIGNIFICANCE
    )
    assert stats.chisquare(np.bincount(other - 900, minlength=20)).pvalue > SIGNIFICANCE


def test_sentinels_and_mode_tokens_are_distinct():
    objective = objectives.make_objective("dae", mode="X", rate=0.5)
    needed = objective.num_sentinels(128)
    example = texts(objective.text_spec(128).length, [9], VOCAB)
    few = VOCAB._replace(sentinel_ids=VOCAB.sentinel_ids[: needed - 1])
    with pytest.raises(UserError, match=f"needs {needed} sentinels.*{needed - 1}"):
        objective.corrupt(example, keys(1), few, 128)
    enough = VOCAB._replace(sentinel_ids=VOCAB.sentinel_ids[:needed])
    batch = objective.corrupt(example, keys(1), enough, 128)
    assert batch["encoder_token"][0, 0] == enough.sentinel_ids[-3]


@pytest.mark.parametrize("fields", [dict(noise_mask="iid"), dict(noise_mask="prefix")])
def test_too_few_sentinels_are_an_error_even_for_empty_texts(fields):
    objective = objectives.make_objective("dae", **fields)
    needed = objective.num_sentinels(128)
    few = VOCAB._replace(sentinel_ids=VOCAB.sentinel_ids[: needed - 1])
    with pytest.raises(UserError, match=f"needs {needed} sentinels"):
        objective.corrupt(texts(127, [0], VOCAB), keys(1), few, 128)


def test_z_loss_adds_the_squared_log_partition():
    class Network:
        encode = staticmethod(lambda group: None)
        states = staticmethod(lambda group, encoded: None)
        readout = staticmethod(lambda states: readout)

    batch = objectives.make_objective("dae").corrupt(
        texts(17, [17, 9], VOCAB), keys(2), VOCAB, 16
    )
    feature = np.ones((*batch["target"].shape, 2), np.float32)
    table, bias = (
        np.zeros((VOCAB.size, 2), np.float32),
        np.zeros(VOCAB.size, np.float32),
    )
    readout = networks.Readout(feature, table, bias, VOCAB.size)
    without, with_z = (
        jax.jit(lambda batch, own=own: own.loss(Network, batch, None)[0]["dae"])(batch)
        for own in (objectives.make_objective("dae", z_loss=z) for z in (0, 0.1))
    )
    added = (with_z.total - without.total) / without.weight
    assert float(added) == pytest.approx(0.1 * np.log(VOCAB.size) ** 2, rel=1e-5)
