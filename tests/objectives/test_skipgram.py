"""skipgram and cbow: published steps, who is kept, who is near, who is a negative.

Golden values are those of word2vec.c's formulas in float64, with the exact sigmoid.
Seeds are fixed; at a random seed each statistical test fails with p < 1e-4.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks, objectives
from research.contract.batch import Example
from research.contract.errors import UserError
from research.data import counter_rng
from research.objectives.vectors import word_counts, word_scores, word_windows
from tests.testing.example_batches import keys, vocab
from tests.testing.model_options import model_options

TABLES = model_options(
    network="tables", width=3, tie_embeddings=False, table_init="word2vec"
)
SIGMAS = 4.5


def words(count):
    """A vocabulary whose ordinary words, from id 5 on, have these counts."""
    return vocab(size=5 + len(count), sentinels=0)._replace(
        token_count=np.array([9, 9, 9, 9, 9, *count])
    )


def example_of(rows, info) -> Example:
    """Rows of words 0, 1, ... of `words`; -1 ends a sentence, -2 is unknown."""
    width = max(map(len, rows))
    token = np.full((len(rows), width), info.pad_id, np.int32)
    for number, row in enumerate(rows):
        ids = np.array(row) + 5
        ids[ids == 4] = info.eos_id
        ids[ids == 3] = info.unk_id
        token[number, : len(row)] = ids
    length = np.array([*map(len, rows)], np.int32)
    none = 0 * length
    return Example(token, 0 * token, length, none - 1, length, *[none] * 4)


def step(name, fields, token, answers, contexts, outputs, rate):
    """The contexts' vectors, the outputs, and the loss, after a step on the middle word
    of a row alone.

    Args:
      token: the row; contexts and outputs: id -> vector.
    """
    objective = objectives.make_objective(name, window=1, subsample=0.0, **fields)
    info = words([1] * 8)
    module = networks.build(TABLES, objective.needs(info), info)
    length = len(token)
    batch = objective.corrupt(
        example_of([[t - 5 for t in token]], info), keys(1), info, length
    )
    middle = np.repeat(np.arange(length) == length // 2, 2)[None]
    batch |= {"weight": batch["weight"] * middle} | answers
    table = np.zeros((2, 128, 3), np.float32)
    for own, vectors in zip(table, (contexts, outputs), strict=True):
        own[list(vectors)] = list(vectors.values())
    params = {"token": {"embedding": table[0]}, "output": {"embedding": table[1]}}

    def loss(params):
        score = lambda net: objective.loss(net, batch, None)[0]  # noqa: E731
        return networks.apply(module, params, score)[name].total

    total, grads = jax.jit(jax.value_and_grad(loss))(params)
    after = jax.tree.map(lambda x, g: x - rate * g, params, grads)
    read = lambda part, ids: np.asarray(after[part]["embedding"])[list(ids)]  # noqa: E731
    return read("token", contexts), read("output", outputs), float(total)


OUTPUTS = {7: (0.2, 0.1, -0.1), 8: (-0.3, 0.4, 0.2), 9: (0.5, 0, -0.4)}
OUTPUTS_AFTER = [
    (0.20126875, 0.0974625, -0.09619375),
    (-0.30121876, 0.40243751, 0.19634373),
    (0.49879379, 0.00241254, -0.40361881),
]


@pytest.mark.parametrize("negatives_of", ["pair", "centre"])
def test_a_step_of_skip_gram(negatives_of):
    """Word 7 is the centre and 6 its context; 7 among the negatives is left out."""
    fields = {"negatives": 3, "negatives_of": negatives_of}
    shape = (1, 2 if negatives_of == "centre" else 4, 3)
    answers = {"target_negative": np.broadcast_to(np.int32([8, 7, 9]), shape)}
    vectors = {6: (0.1, -0.2, 0.3)}
    own = step("skipgram", fields, [6, 7], answers, vectors, OUTPUTS, 0.025)
    np.testing.assert_allclose(own[0], [(0.10016243, -0.20360628, 0.30111881)], 1e-6)
    np.testing.assert_allclose(own[1], OUTPUTS_AFTER, 2e-5)
    assert own[2] == pytest.approx(2.0354789)


@pytest.mark.parametrize(("gradient", "divisor"), [("sum", 1), ("mean", 2)])
def test_a_step_of_cbow_gives_each_context_the_whole_gradient(gradient, divisor):
    fields = {"negatives": 2, "context_gradient": gradient}
    answers = {"target_negative": np.broadcast_to(np.int32([8, 9]), (1, 3, 2))}
    vectors = {5: (0.1, -0.2, 0.3), 6: (0.4, 0, -0.1)}
    own = step("cbow", fields, [5, 7, 6], answers, vectors, OUTPUTS, 0.05)
    error = np.array([-0.00096191, -0.00706285, 0.00319956])
    expected = np.array([*vectors.values()]) + error / divisor
    np.testing.assert_allclose(own[0], expected, atol=1e-7)


def test_a_step_of_hierarchical_softmax():
    fields = {"output": "hierarchical", "max_code": 3}
    node = np.broadcast_to(np.int32([7, 8, 0]), (1, 2, 3))
    answers = {"target_node": node}
    answers["target_code"] = np.broadcast_to(np.int32([1, 0, -1]), (1, 2, 3))
    vectors, outputs = {6: (0.1, -0.2, 0.3)}, {n: OUTPUTS[n] for n in (7, 8)}
    own = step("skipgram", fields, [6, 7], answers, vectors, outputs, 0.025)
    np.testing.assert_allclose(own[0], [(0.09369377, -0.19610628, 0.30379374)], 1e-6)
    nodes = [
        (0.19876875, 0.1024625, -0.10369375),
        (-0.29871876, 0.39743751, 0.20384373),
    ]
    np.testing.assert_allclose(own[1], nodes, 1e-6)
    assert own[2] == pytest.approx(1.3967193)


def test_the_windows_of_a_centre_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    length, window, width = 37, 4, 3
    feature, table = rng.normal(size=(2, 2, length, width)).astype(np.float32)
    weight = rng.random((2, length, 2 * window)).astype(np.float32)
    offset = word_windows.offsets(window)
    at = np.arange(length)[:, None] + offset
    inside = (at >= 0) & (at < length)
    weight *= inside
    near = feature[:, np.clip(at, 0, length - 1)]
    expected = np.einsum("blj,blje->ble", weight, near)
    found = word_scores.window_sum(feature, weight)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    row = np.arange(2 * length, dtype=np.int32).reshape(2, length, 1)
    scored = word_scores.Scored(row, np.ones(row.shape, np.float32))
    flat = table.reshape(-1, width)
    readout = (feature, jnp.asarray(flat), jnp.zeros(len(flat)))
    total = word_scores.score_windows(feature, readout, scored, weight)
    logits = np.einsum("ble,blje->blj", table, near)
    expected = np.sum(weight * np.logaddexp(0, -logits))
    np.testing.assert_allclose(total, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (1e-3, (0.145766, 0.416228, 2, 13.16)),
        (1e-4, (0.042491, 0.11, 0.416228, 2)),
        (1e-5, (0.013077, 0.032623, 0.11, 0.416228)),
    ],
)
def test_words_are_kept_as_the_tool_keeps_them(sample, expected):
    info = words([60_000, 10_000, 1000, 100, 1_000_000 - 71_100, 0])
    rates = word_counts.keep_rates(info, sample)
    np.testing.assert_allclose(rates[5:9], expected, rtol=2e-3)
    assert not rates[:5].any() and rates[-1] == 0
    assert (word_counts.keep_rates(info, 0.0)[5:] == [1, 1, 1, 1, 1, 0]).all()


def test_subsampling_comes_before_windows_and_moves_words_together():
    info = words([1, 1, 1, 1])
    example = example_of([[0, -2, 1, 2, -1, 3, 0]], info)
    kept = word_windows.keep_words(example, keys(1), info, 8, 0.0)
    assert kept.token.tolist() == [[5, 6, 7, 8, 5, 0, 0, 0]]
    assert kept.sentence.tolist() == [[0, 0, 0, 1, 1, -1, -1, -1]]
    near = word_windows.find_contexts(kept, keys(1), 1)
    pairs = [[False, True], [True, True], [True, False], [False, True], [True, False]]
    assert near[0, :5].tolist() == pairs and not near[0, 5:].any()
    frequent = words([900, 1, 99])
    rows, size = 400, 100
    example = example_of([[0] * size] * rows, frequent)
    kept = word_windows.keep_words(example, keys(rows), frequent, size, 1e-2)
    rate = word_counts.keep_rates(frequent, 1e-2)[5]
    assert 0.1 < rate < 0.2
    deviation = (rate * (1 - rate) / (rows * size)) ** 0.5
    assert abs(kept.length.mean() / size - rate) < SIGMAS * deviation
    assert ((kept.token > 0).sum(axis=1) == kept.length).all()


def test_near_words_are_contexts_more_often():
    info, window, rows, length = words([1, 1]), 4, 500, 100
    example = example_of([[0] * length] * rows, info)
    kept = word_windows.keep_words(example, keys(rows), info, length, 0.0)
    near = word_windows.find_contexts(kept, keys(rows), window)
    inner = near[:, window:-window].reshape(-1, 2 * window)
    distance = np.abs(word_windows.offsets(window))
    expected = (window + 1 - distance) / window
    deviation = np.sqrt(expected * (1 - expected) / len(inner))
    assert (np.abs(inner.mean(axis=0) - expected) <= SIGMAS * deviation).all()
    assert (inner[:, distance == 1]).all()
    assert (inner[:, :window] == inner[:, ::-1][:, :window]).all(), "one half-width"


COUNTS = (15, 7, 6, 6, 5, 3, 1)


@pytest.mark.parametrize(
    ("power", "share"),
    [
        (0.75, (0.290738, 0.164156, 0.146233, 0.146233, 0.127544, 0.086951, 0.038145)),
        (0.5, (0.236362, 0.161466, 0.149488, 0.149488, 0.136463, 0.105704, 0.061028)),
    ],
)
def test_negatives_have_the_law_of_their_power(power, share):
    law = word_counts.noise_law(words(COUNTS), power)
    slot = law.stay / len(share)
    exact = slot + np.bincount(law.other, 1 / len(share) - slot, len(share))
    np.testing.assert_allclose(exact, share, atol=1e-6)
    drawn = word_counts.draw_words(law, keys(100), "negative", 1000).ravel()
    found = np.bincount(drawn, minlength=12)[5:] / drawn.size
    deviation = np.sqrt(exact * (1 - exact) / drawn.size)
    assert (np.abs(found - exact) < SIGMAS * deviation).all()


@pytest.mark.parametrize(
    ("counts", "codes"),
    [
        (COUNTS, ("11", "00", "101", "100", "011", "0101", "0100")),
        ((3, 2, 2, 1, 1, 1), ("11", "01", "00", "100", "1011", "1010")),
        ((4, 2, 1, 1), ("1", "01", "001", "000")),
    ],
)
def test_huffman_codes_are_those_of_the_tool(counts, codes):
    found = word_counts.huffman_codes(words(counts), 5)
    bits = ["".join(map(str, row[row >= 0])) for row in found.code[5:]]
    assert tuple(bits) == codes
    assert not (found.code[:5] >= 0).any()
    if counts == COUNTS:
        nodes = [
            found.node[5 + n][: len(code)].tolist() for n, code in enumerate(codes)
        ]
        assert nodes[:4] == [[5, 4], [5, 3], [5, 4, 2], [5, 4, 2]]
        assert nodes[4:] == [[5, 3, 1], [5, 3, 1, 0], [5, 3, 1, 0]]


def test_a_code_that_is_too_long_is_refused():
    with pytest.raises(UserError, match=r"max_code is 3, but .* longer; raise it"):
        word_counts.huffman_codes(words(COUNTS), 3)


PAIRS = np.array([[4, 1, 1], [1, 2, 1], [1, 1, 4]])
OPTIMUM = [
    [0.090860, -1.907627, -2.211726],
    [-1.700900, -0.298189, -1.700900],
    [-2.211726, -1.907627, 0.090860],
]
"""Of PAIRS with five negatives and skip, [context, centre]."""


@pytest.mark.parametrize("rule", ["skip", "redraw"])
@pytest.mark.parametrize("negatives_of", ["pair", "centre"])
def test_the_optimum_is_shifted_pmi(rule, negatives_of):
    """Levy and Goldberg 2014, but for negatives that equal their target.

    Sentences of two words have the pairs of PAIRS. At the log of positives over
    negatives, as they were counted in the batch, the loss has no gradient; and what is
    counted is what the formula of the rule says.
    """
    info, times, number = words(PAIRS.sum(0)), 250, 5
    first, second = np.repeat(np.argwhere(PAIRS >= 0), PAIRS.ravel() * times, axis=0).T
    row = np.stack([first, second, 0 * first - 1], axis=1).ravel()
    rows = row.reshape(50, -1)
    objective = objectives.make_objective(
        "skipgram",
        window=1,
        subsample=0.0,
        negatives=number,
        equal_negatives=rule,
        negatives_of=negatives_of,
    )
    length = rows.shape[1]
    batch = objective.corrupt(example_of(rows, info), keys(50), info, length)
    pair = batch["weight"] > 0
    context = np.take_along_axis(batch["token"], batch["scored"], axis=1)[pair] - 5
    centre = batch["target"][pair] - 5
    negative = batch["target_negative"]
    if negatives_of == "centre":
        negative = np.repeat(negative, 2, axis=1)
    negative = negative[pair] - 5
    positives = np.zeros((3, 3))
    np.add.at(positives, (context, centre), 1)
    assert (positives == 2 * times * PAIRS).all()
    negatives = np.zeros((3, 3))
    kept = negative != centre[:, None]
    assert kept.all() == (rule == "redraw")
    np.add.at(negatives, (np.repeat(context, number)[kept.ravel()], negative[kept]), 1)
    share = PAIRS.sum(0) ** 0.75 / (PAIRS.sum(0) ** 0.75).sum()
    other = positives[:, None] * ~np.eye(3, dtype=bool)  # context, negative, centre
    drawn = other / (1 - share) if rule == "redraw" else other
    expected = number * share * drawn.sum(axis=2)
    assert (np.abs(negatives - expected) < 2 * SIGMAS * np.sqrt(expected)).all()
    if rule == "skip":
        np.testing.assert_allclose(np.log(positives / expected), OPTIMUM, atol=1e-5)
    table = np.zeros((2, 128, 3), np.float32)
    table[0, 5:8], table[1, 5:8] = np.eye(3), np.log(positives / negatives).T
    module = networks.build(TABLES, objective.needs(info), info)
    params = {"token": {"embedding": table[0]}, "output": {"embedding": table[1]}}

    @jax.jit
    @jax.grad
    def gradient(params):
        score = lambda net: objective.loss(net, batch, None)[0]  # noqa: E731
        return networks.apply(module, params, score)["skipgram"].total

    for leaf in jax.tree.leaves(gradient(params)):
        assert np.abs(leaf).max() < 1e-4 * positives.sum()


def test_a_text_without_counts_is_refused():
    info = words([1, 1])._replace(token_count=None)
    objective = objectives.make_objective("cbow")
    with pytest.raises(UserError, match=r"counts of words.*data.corpus"):
        objective.corrupt(example_of([[0, 1]], info), keys(1), info, 4)
    key = counter_rng.row_key(0, np.zeros(1, int), np.zeros(1, int))
    with pytest.raises(UserError, match="two words"):
        objective.corrupt(example_of([[0]], words([3])), key, words([3]), 4)
