"""lm: inputs are shifted targets, in any direction, within each document.

Statistical tests have fixed seeds; each fails by chance for 1 seed in 10,000.
"""

import functools
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from research import networks, objectives
from research.contract.batch import DOCUMENT, attention_mask
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab()
SIGNIFICANCE = 1e-4


def corrupt(example, **fields):
    objective = objectives.make_objective("lm", **fields)
    rows, length = example.token.shape
    return objective.corrupt(example, keys(rows), VOCAB, length)


def reverse_texts(example):
    """The same texts, each from its last token to its first."""
    token = example.token.copy()
    for row, length in enumerate(example.length):
        token[row, :length] = token[row, :length][::-1]
    return example._replace(token=token)


def test_input_is_the_target_one_position_later():
    example = texts(16, [16, 9, 1, 0], VOCAB)
    batch = corrupt(example)
    for row, length in enumerate(example.length):
        target = batch["target"][row, :length]
        np.testing.assert_array_equal(target, example.token[row, :length])
        before = [VOCAB.bos_id, *target[:-1]][:length]
        np.testing.assert_array_equal(batch["token"][row, :length], before)
        np.testing.assert_array_equal(batch["weight"][row], np.arange(16) < length)


def test_backward_is_forward_of_the_reversed_text():
    example = texts(16, [16, 9, 1, 0], VOCAB, separators=0.1)
    backward = corrupt(example, direction="backward")
    forward = corrupt(reverse_texts(example))
    for name, array in forward.items():
        np.testing.assert_array_equal(backward[name], array, err_msg=name)


@pytest.mark.parametrize("prefix", ["none", "random"])
def test_both_directions_are_those_of_either_alone(prefix):
    example = texts(16, [16, 9, 1, 0], VOCAB, separators=0.1)
    starts = np.roll(example.token == VOCAB.eos_id, 1, axis=1)
    example.flags[starts] |= DOCUMENT
    fields = {"prefix": prefix, "documents": "apart"}
    both = corrupt(example, direction="both", **fields)
    for direction in ("forward", "backward"):
        alone = corrupt(example, direction=direction, **fields)
        for name, array in alone.items():
            np.testing.assert_array_equal(both.pop(f"{direction}_{name}"), array)
    assert not both


@settings(deadline=None, max_examples=30)
@given(st.integers(2, 40), st.integers(0, 99))
def test_a_prefix_attends_to_itself_and_what_follows_is_scored(length, seed):
    num_raw = np.random.default_rng(seed).integers(0, length + 1, 6)
    batch = corrupt(texts(length, num_raw, VOCAB, seed=seed), prefix="random")
    mask = attention_mask(batch)
    for row, count in enumerate(num_raw):
        if count < 2:
            assert not batch["weight"][row].any()
            continue
        cut = count - int(batch["weight"][row].sum())  # tokens of the prefix
        assert 1 <= cut < count
        np.testing.assert_array_equal(
            batch["weight"][row] > 0,
            (np.arange(length) >= cut) & (np.arange(length) < count),
        )
        # The input at position p is token p (bos at 0), its target is token p + 1.
        expected = np.zeros((length, length), bool)
        for query in range(count):
            for key in range(count):
                expected[query, key] = key <= cut or key <= query
        np.testing.assert_array_equal(mask[row], expected)
        for query in range(cut, count):
            assert not mask[row, query, query + 1 :].any()


def test_all_prefixes_are_equally_likely():
    batch = corrupt(texts(11, [11] * 5000, VOCAB), prefix="random")
    cut = 11 - batch["weight"].sum(axis=1).astype(int)
    count = np.bincount(cut, minlength=12)
    assert not count[[0, 11]].any()
    assert stats.chisquare(count[1:11]).pvalue > SIGNIFICANCE


def documents(rng, length, separator):
    """A row of whole documents, and the bounds [begin, end) of each.

    separator: eos, none or lines, as data.separator.
    """
    token, flags, bounds = [], [], []
    while len(token) < length:
        size = int(rng.integers(1, 9))
        begin = len(token)
        token += list(rng.choice(VOCAB.ordinary_ids, size))
        flags += [DOCUMENT] + [0] * (size - 1)
        if separator == "lines" and size > 2:
            token[begin + size // 2] = VOCAB.eos_id
        if separator != "none":
            token, flags = [*token, VOCAB.eos_id], [*flags, 0]
        bounds.append((begin, len(token)))
    bounds = [(begin, min(end, length)) for begin, end in bounds]
    example = texts(length, [length], VOCAB)
    row = np.array([token[:length]], np.int32)
    return example._replace(
        token=row, flags=np.array([flags[:length]], np.uint8)
    ), bounds


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("separator", ["eos", "none", "lines"])
def test_documents_apart_equal_each_document_alone(direction, separator):
    rng = np.random.default_rng(1)
    for _ in range(20):
        example, bounds = documents(rng, 24, separator)
        batch = corrupt(example, documents="apart", direction=direction)
        assert batch["weight"].all()  # every token stays a target
        mask, token = attention_mask(batch)[0], example.token[0]
        if direction == "backward":
            # A separator is read before the document that it follows in the text.
            shift = int(separator != "none")
            ends = [end - shift for _, end in bounds[:-1]]
            whole = bounds[-1][1]
            if token[-1] == VOCAB.eos_id:
                ends, whole = [*ends, whole - 1], whole
            edge = [0, *ends] + ([whole] if not ends or ends[-1] < whole else [])
            bounds = [(whole - b, whole - a) for a, b in pairwise(edge)][::-1]
        segments = set()
        for begin, end in bounds:
            alone = example._replace(
                token=np.pad(
                    (token[::-1] if direction == "backward" else token)[begin:end],
                    (0, 24 - end + begin),
                )[None],
                flags=np.zeros((1, 24), np.uint8),
                length=np.array([end - begin], np.int32),
            )
            own = corrupt(alone)
            for name in ("token", "position", "rank", "reach", "target", "weight"):
                np.testing.assert_array_equal(
                    batch[name][0, begin:end], own[name][0, : end - begin], name
                )
            assert not mask[begin:end, :begin].any()
            assert not mask[begin:end, end:].any()
            segments |= {*batch["segment"][0, begin:end]}
        assert segments == set(range(1, len(bounds) + 1))


def test_a_window_may_begin_within_a_document():
    example, bounds = documents(np.random.default_rng(2), 24, "eos")
    (_, second), *_ = bounds
    cut = example._replace(
        token=np.roll(example.token, -second + 2, axis=1),
        flags=np.roll(example.flags, -second + 2, axis=1),
        length=np.array([24 - second + 2], np.int32),
    )
    batch = corrupt(cut, documents="apart")
    assert list(batch["segment"][0, :4]) == [1, 1, 2, 2]
    assert list(batch["position"][0, :4]) == [0, 1, 0, 1]
    assert list(batch["token"][0, [0, 2]]) == [VOCAB.bos_id, VOCAB.bos_id]
    assert batch["target"][0, 1] == VOCAB.eos_id  # the end of the first is a target


def test_each_document_has_its_own_prefix():
    example, bounds = documents(np.random.default_rng(3), 40, "eos")
    rows = 400
    many = example._replace(
        token=example.token.repeat(rows, 0),
        flags=example.flags.repeat(rows, 0),
        length=np.full(rows, 40, np.int32),
    )
    batch = corrupt(many, documents="apart", prefix="random")
    for begin, end in bounds:
        weight, size = batch["weight"][:, begin:end], end - begin
        cut = size - weight.sum(axis=1).astype(int)
        if size < 2:
            assert not weight.any()
            continue
        assert set(cut) == set(range(1, size))
        assert (np.diff(weight, axis=1) >= 0).all()
        rank = np.maximum(0, np.arange(size) - cut[:, None])
        np.testing.assert_array_equal(batch["rank"][:, begin:end], rank)


def test_both_directions_are_two_networks_with_shared_tables():
    example = texts(8, [8, 5], VOCAB)
    both, forward, backward = (
        objectives.make_objective("lm", direction=name)
        for name in ("both", "forward", "backward")
    )
    options = model_options(layers=1, width=8, heads=1, feedforward=8, max_length=8)
    net = networks.build(options, both.needs(VOCAB), VOCAB)

    def loss(objective, example):
        batch = objective.corrupt(example, keys(2), VOCAB, 8)
        batch = jax.tree.map(jnp.asarray, batch)
        return lambda net: objective.loss(net, batch, jax.random.key(0))[0]

    shapes = jax.eval_shape(
        lambda: networks.unbox(
            networks.init(net, loss(both, example), jax.random.key(0))
        )
    )
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda leaf: rng.normal(size=leaf.shape).astype(np.float32), shapes
    )
    assert list(params["backward"]) == ["stack"]  # the rest is the forward network's

    @functools.partial(jax.jit, static_argnums=(0, 1))
    def score(objective, net, params):
        return networks.apply(net, params, loss(objective, example))

    terms = score(both, net, params)
    for direction, alone in (("forward", forward), ("backward", backward)):
        own = params["forward"] | params[direction]
        expected = score(
            alone, networks.build(options, alone.needs(VOCAB), VOCAB), own
        )["lm"]
        found = terms[f"{direction}/lm"]
        np.testing.assert_allclose(found.total, expected.total, rtol=1e-6)
        assert found.weight == expected.weight and found.coef == 0.5
    assert terms["forward/lm"].total != terms["backward/lm"].total
