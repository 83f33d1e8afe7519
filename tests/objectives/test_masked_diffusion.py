"""Masked diffusion: published values, rates by field, and the exact bound."""

# B rows, L length, n tokens of a text

import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

from research import objectives
from research.contract.batch import attention_mask
from research.contract.errors import UserError
from research.evaluation import sentence_scores
from research.evaluation.sentence_scores import Scorer
from research.objectives.diffusion import bound, noise
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.known_chain import (
    KnownChain,
    LetterVocabulary,
    enumerated,
    log_likelihood,
    make_run,
)
from tests.testing.markov_chain import states_of

VOCAB = vocab(size=64)
KEYS = keys(4)


def make(**fields):
    return objectives.make_objective("masked_diffusion", **fields)


def corrupt(objective, num_rows=512, length=33, num_raw=32):
    example = texts(length - 1, [num_raw] * num_rows, VOCAB, seed=1)
    return objective.corrupt(example, keys(num_rows), VOCAB, length)


def test_rates_and_weights_are_those_of_the_released_codes(monkeypatch):
    t = np.array([[0.001, 0.25, 0.5, 1.0]])
    rate, weight = make(probability="scaled")._noise(t, KEYS)  # MDLM
    np.testing.assert_allclose(rate, [[0.000999, 0.24975, 0.4995, 0.999]])
    np.testing.assert_allclose(weight, [[1000, 4, 2, 1]])
    rate, weight = make(schedule="cosine")._noise(np.array([[0.5]]), KEYS)
    np.testing.assert_allclose([rate[0, 0], weight[0, 0]], [0.292893, 3.792238], 1e-6)
    draws = np.array([[0.1], [0.9], [0.3], [0.5]])
    monkeypatch.setattr(noise.counter_rng, "uniform", lambda *_: draws)
    u = noise.stratified(KEYS, np.arange(4), 4, 1)
    found = (1e-3 + (1 - 1e-3) * u)[:, 0]
    np.testing.assert_allclose(found, [0.025975, 0.475525, 0.575425, 0.875125])


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(0.3, (0, 0.372792, 0.527208)), (0.9, (0.767962, 0.932038, 1))],
)
def test_rates_by_rarity_have_the_mean_of_the_row(rate, expected):
    rank = np.array([[0.1, 0.5, 0.9, 0.7]])
    candidate = np.array([[True, True, True, False]])
    found = noise.by_rarity(rank, candidate, np.array([[rate]]), 0.5)
    np.testing.assert_allclose(found[0, :3], expected, atol=2e-6)
    assert found[0, :3].mean() == pytest.approx(rate, abs=1e-6)


def test_a_row_has_its_weight_over_all_its_tokens():
    # Golden value: 4 tokens, t = .5, masks of probability .25 and .5.
    objective = make(min_t=0.5, max_t=0.5)
    example = texts(4, [4] * 64, VOCAB)
    batch = objective.corrupt(example, keys(64), VOCAB, 5)
    two = (batch["weight"] > 0).sum(axis=1) == 2
    nll = np.array([math.log(4), math.log(2)])
    slots = batch["weight"][two][0] > 0
    assert batch["weight"][two][0][slots] @ nll == pytest.approx(4.158883, abs=1e-6)
    assert (batch["text_weight"].sum(axis=1) == 4).all()
    exact = make(count="exact").corrupt(example, keys(64), VOCAB, 5)
    count = (exact["weight"] > 0).sum(axis=1)
    np.testing.assert_allclose(exact["weight"].sum(axis=1), 4)
    assert {*count.tolist()} == {1, 2, 3, 4}


def test_the_mean_loss_of_independent_tokens_is_their_sum():
    # Of nll (1, 2, 3): 6, and (1 - min_t) of it where MDLM's code scales the rate.
    nll = np.array([0, 1, 2, 3])
    for fields, expected in (({}, 6), ({"probability": "scaled", "min_t": 0.2}, 4.8)):
        batch = corrupt(make(strata=4096, **fields), 40_000, 4, 3)
        assert (batch["weight"] @ nll).mean() == pytest.approx(expected, rel=0.03)


def fractions(batch, size=32):
    """[B, N]: fractions of masks of blocks of 32 tokens."""
    return (batch["weight"][:, 1:] > 0).reshape(512, -1, size).mean(axis=2)


def test_fields_give_the_rates_of_the_systems():
    masked = fractions(corrupt(make(strata=512)))[:, 0]
    sorted_rates = np.sort(masked)
    assert np.abs(sorted_rates - (np.arange(512) + 0.5) / 512).max() < 0.12
    cosine = fractions(corrupt(make(schedule="cosine", strata=512)))
    assert cosine.mean() == pytest.approx(1 - 2 / np.pi, abs=0.01)
    high = {"schedule": "bimodal", "derivative_power": 0.1, "high_mean": 0.8}
    bimodal = fractions(corrupt(make(**high)))
    assert bimodal.mean() == pytest.approx(0.6 * 0.12 + 0.4 * 0.8, abs=0.03)
    assert ((bimodal > 0.35) & (bimodal < 0.5)).mean() < 0.01
    inside = corrupt(make(min_t=0.45, max_t=0.75, count="inside"))
    assert fractions(inside).min() >= 0.45 and fractions(inside).max() <= 0.75
    short = corrupt(make(short_rate=0.5))["text_weight"].sum(axis=1)
    assert (short < 32).mean() == pytest.approx(0.5, abs=0.07) and short.min() < 4
    rare = make(frequency_power=0.5, min_t=0.2, max_t=0.2)
    batch = corrupt(rare, 2000)
    token = batch["target"][batch["weight"] > 0]
    counts = VOCAB.token_count[token]
    everywhere = VOCAB.token_count[VOCAB.ordinary_ids].mean()
    assert counts.mean() < 0.85 * everywhere


def test_a_noised_block_attends_to_itself_and_to_clean_blocks_before_it():
    batch = make(block_size=1, min_t=1.0).corrupt(
        texts(2, [2], VOCAB), keys(1), VOCAB, 3
    )
    mask = attention_mask(batch)[0]
    n0, n1, n2, c0, c1, c2 = range(6)
    attends = [{n0}, {n1, c0}, {n2, c0, c1}, {c0}, {c0, c1}, {c0, c1, c2}]
    assert [{*np.flatnonzero(row).tolist()} for row in mask] == attends
    whole = make(block_size=36)
    example = texts(35, [20], VOCAB)
    blocked = whole.corrupt(example, keys(1), VOCAB, 36)
    plain = make().corrupt(example, keys(1), VOCAB, 36)
    np.testing.assert_array_equal(
        attention_mask(blocked)[:, :36, :36], attention_mask(plain)
    )
    assert not attention_mask(blocked)[:, :36, 36:].any()
    np.testing.assert_array_equal(blocked["token"][:, :36], plain["token"])


NUM = 4
SETS = [
    frozenset(s)
    for k in range(1, NUM + 1)
    for s in itertools.combinations(range(NUM), k)
]
LOSS = {
    (index, masked): loss
    for (masked, index), loss in zip(
        [(masked, index) for masked in SETS for index in sorted(masked)],
        np.random.default_rng(0).exponential(2, 99),
        strict=False,
    )
}
"""-log p of each of four tokens, given those that are not masked: any numbers."""


def exact_bound(block_size: int, set_weight: Callable[[int, int], float]) -> float:
    """The sum over blocks and their sets of masks of weight x loss; later blocks are
    masked, as in a model that does not see them."""
    size, total = block_size or NUM, 0.0
    for first in range(0, NUM, size):
        inside = range(first, min(first + size, NUM))
        for count in range(1, len(inside) + 1):
            for chosen in itertools.combinations(inside, count):
                masked = frozenset(chosen) | frozenset(range(inside[-1] + 1, NUM))
                loss = sum(LOSS[index, masked] for index in chosen)
                total += set_weight(len(inside), count) * loss
    return total


def by_counts(num, count):
    """num / count, over counts and subsets, all alike."""
    return 1 / (count * math.comb(num, count))


def by_rates(num, count):
    """The integral of 1 / t x t^count (1 - t)^(num - count) over t."""
    t = (np.arange(100_000) + 0.5) / 100_000
    return float(np.mean(t ** (count - 1) * (1 - t) ** (num - count)))


def by_orders() -> float:
    """The mean over all orders of the loss by the chain rule."""
    orders = [*itertools.permutations(range(NUM))]
    losses = [LOSS[o[i], frozenset(o[i:])] for o in orders for i in range(NUM)]
    return sum(losses) / len(orders)


def test_counts_rates_and_orders_have_one_bound():
    counts = exact_bound(0, by_counts)
    assert exact_bound(0, by_rates) == pytest.approx(counts, rel=1e-6)
    assert by_orders() == pytest.approx(counts, rel=1e-12)
    in_order = [LOSS[i, frozenset(range(i, NUM))] for i in range(NUM)]
    assert exact_bound(1, by_counts) == pytest.approx(sum(in_order))


NUM_TEXTS = 150


def estimates(method: str, block_size: int) -> np.ndarray:
    """[texts, replicates]: the parts of the estimates of the rows of `score_rows`."""
    objective = make(block_size=block_size)
    example = texts(NUM, [NUM] * NUM_TEXTS, VOCAB)
    example = example._replace(document=np.arange(NUM_TEXTS))
    scored = np.ones((NUM_TEXTS, NUM), bool)
    rows = objective.score_rows(example, scored, VOCAB, 1 + NUM, method)
    parts = np.zeros((NUM_TEXTS, bound.REPLICATES))
    replicate = np.zeros_like(rows.text) if rows.replicate is None else rows.replicate
    block = (1 + np.arange(NUM)) // (block_size or 1 + NUM)
    for text, part, weight in zip(
        rows.text, replicate, rows.arrays["weight"][:, 1:], strict=True
    ):
        for index in np.flatnonzero(weight):
            masked = (weight > 0) & (block == block[index]) | (block > block[index])
            loss = LOSS[index, frozenset(np.flatnonzero(masked).tolist())]
            parts[text, part] += weight[index] * loss
    return parts


@pytest.mark.parametrize("block_size", [0, 1, 3])
def test_estimates_have_the_exact_bound_in_the_mean(block_size):
    # bos is in the first block: of 3 positions it has 2 tokens.
    sizes = {0: [4], 1: [1, 1, 1, 1], 3: [2, 2]}[block_size]
    expected = exact_bound(sizes[0] % NUM, by_counts)
    errors = []
    for method in bound.METHODS:
        parts = estimates(method, block_size)
        values = parts.sum(axis=1)
        if block_size == 1:
            np.testing.assert_allclose(values, expected, rtol=1e-6)
            continue
        error = values.std() / np.sqrt(NUM_TEXTS)
        assert abs(values.mean() - expected) < 4 * error + bound.MIN_T * expected
        # The replicates of a text tell how much its estimate varies.
        squares = bound.REPLICATES * parts.var(axis=1, ddof=1)
        assert values.std() == pytest.approx(np.sqrt(squares.mean()), rel=0.15)
        errors.append(values.std())
    assert errors == sorted(errors)  # strata and fixed counts lower the variance


TEXTS = ["abc d ef", "f", "aab bcd dfe a"]


@pytest.mark.parametrize("block_size", [0, 1, 3])
def test_of_the_true_conditionals_the_bound_is_tight(block_size, monkeypatch):
    monkeypatch.setattr(sentence_scores, "BATCH_POSITIONS", 4096)
    scorer = Scorer(make_run(make(block_size=block_size), KnownChain()))
    found = scorer([*TEXTS, *TEXTS[:1]], draws=[*TEXTS, TEXTS[1]])
    for text, result in zip(TEXTS, found, strict=False):
        exact = log_likelihood(states_of(LetterVocabulary().encode(text)[0]))
        margin = 5 * result.std_error + 1e-6 * abs(exact)
        assert abs(result.log_prob - exact) < margin
        assert result.num_bytes == len(text)
        if block_size == 1:
            assert result.std_error == 0
    assert (found[3] == found[0]) == (block_size == 1)  # other draws


@pytest.mark.parametrize("block_size", [0, 1, 3])
def test_a_pseudo_likelihood_is_of_each_token_given_its_block_and_those_before(
    block_size,
):
    scorer = Scorer(make_run(make(block_size=block_size), KnownChain()), "original")
    for text, result in zip(TEXTS, scorer(TEXTS), strict=True):
        states, exact = states_of(LetterVocabulary().encode(text)[0]), 0.0
        size = block_size or 2 + len(states)
        for index in range(len(states)):
            read = states[: (1 + (1 + index) // size) * size - 1]
            exact += enumerated(read, index, np.array([index]))
        assert result.log_prob == pytest.approx(exact, rel=1e-5)
        assert result.std_error == 0


def test_a_bound_is_not_asked_of_what_has_none():
    run = SimpleNamespace(objective=objectives.make_objective("electra"))
    with pytest.raises(UserError, match="unknown method of scoring of objective elect"):
        Scorer(run, "stratified")
