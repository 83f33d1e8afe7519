"""The sampled softmax: its law, what is left out, and where its gradient is zero."""

import collections
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import objectives
from research.contract.errors import UserError
from research.networks import Readout
from research.networks.readouts.adaptive import AdaptiveReadout
from research.objectives.lm import lm, sampled_softmax
from research.objectives.losses.cross_entropy import Term

SIZE = 8


def readout(logits):
    """One feature of 1, whose logits are a table of width 1."""
    table = jnp.zeros((16, 1)).at[:SIZE, 0].set(logits)
    return Readout(jnp.ones((1, 1, 1)), table, jnp.zeros(16), SIZE)


def test_words_follow_the_log_uniform_law():
    words = np.array([0, 1, 2, 100])
    found = np.exp(sampled_softmax.log_uniform(words, 793_471))
    golden = [0.05102608, 0.02984835, 0.02117774, 7.252776e-4]
    np.testing.assert_allclose(found, golden, rtol=1e-5)
    keys = jax.random.split(jax.random.key(0), 4000)
    draw = jax.jit(jax.vmap(lambda key: sampled_softmax.draw_words(key, 5, SIZE)))
    drawn = np.asarray(draw(keys))
    each = np.arange(SIZE)
    rate = (drawn[..., None] == each).any(axis=1).mean(axis=0)
    law = np.exp(sampled_softmax.log_drawn(each, 5, SIZE))
    np.testing.assert_allclose(rate, law, atol=4 * 0.5 / 4000**0.5)
    assert ((drawn[..., None] == each).sum(axis=1) <= 1).all(), "a word is there twice"


@pytest.mark.parametrize("size", [1, 2, 20_000, 793_474, 2**20])
def test_each_word_has_its_share_of_all_numbers_that_are_drawn(size):
    ends = np.array([0, *sampled_softmax.shares(size), 2**32])
    law = np.log1p(1 / (np.arange(size) + 1.0)) / np.log(size + 1)
    assert np.abs(np.diff(ends) - 2**32 * law).max() <= 1
    assert np.diff(ends).min() > 0


def test_a_number_stands_for_the_word_in_whose_share_it_is(monkeypatch):
    size = 793_474
    ends = sampled_softmax.shares(size).astype(np.int64)
    begins = np.array([0, *ends])[[0, 1, 2, 100_000, 793_470, size - 1]]
    bits = np.concatenate([begins, begins[1:] - 1]).astype(np.uint32)
    monkeypatch.setattr(jax.random, "bits", lambda *_: jnp.asarray(bits))
    drawn = np.asarray(sampled_softmax.draw_words(jax.random.key(0), len(bits), size))
    found = [0, 1, 2, 99_999, 100_000, 793_469, 793_470, size - 2, size - 1]
    assert drawn[drawn < size].tolist() == found


@pytest.mark.parametrize("count", [1, 20])
def test_a_drawn_target_and_repeats_are_left_out(count):
    """Against the formula, word by word in float64."""
    logits, target = np.linspace(-1, 2, SIZE), 1
    key = jax.random.key(3)
    term = jax.jit(
        lambda target, weight: sampled_softmax.sampled_cross_entropy(
            readout(logits), target, weight, key, count
        )
    )(np.array([[target]]), np.array([[2.0]]))
    drawn = {*np.asarray(sampled_softmax.draw_words(key, count, SIZE)).tolist()}
    p = np.log1p(1 / (np.arange(SIZE) + 1.0)) / np.log(SIZE + 1)
    shifted = logits - np.log(1 - (1 - p) ** count)
    others = [shifted[word] for word in drawn - {target, SIZE}]
    expected = np.log(np.exp([shifted[target], *others]).sum()) - shifted[target]
    np.testing.assert_allclose(term.total, 2 * expected, rtol=1e-5)
    assert term.weight == 2


def test_the_gradient_is_zero_where_that_of_the_whole_softmax_is():
    """At the logarithms of the targets' probabilities, over targets and draws."""
    law = np.random.default_rng(0).dirichlet(np.ones(SIZE))
    keys = jax.random.split(jax.random.key(1), 6000)

    @jax.jit
    @jax.grad
    def mean(logits):
        def one(target, key):
            answers = target[None, None], jnp.ones((1, 1))
            return sampled_softmax.sampled_cross_entropy(
                readout(logits), *answers, key, 6
            ).total

        each = jax.vmap(lambda key: jax.vmap(lambda t: one(t, key))(jnp.arange(SIZE)))
        return jnp.mean(each(keys) @ law)

    at_law, beside = mean(np.log(law)), mean(0 * law)
    assert np.abs(at_law).max() < 0.04 < 0.1 < np.abs(beside).max()


def test_evaluations_and_scores_compare_all_words():
    objective = objectives.make_objective("lm", sampled_words=9)
    assert objective.for_evaluation().sampled_words == 0
    assert objective.for_scoring().sampled_words == 0


def test_each_direction_draws_words_of_its_own(monkeypatch):
    keys = []
    monkeypatch.setattr(
        lm,
        "sampled_cross_entropy",
        lambda readout, target, weight, key, count: (
            keys.append(jax.random.key_data(key).tolist()) or Term(0.0, 1.0)
        ),
    )
    half = types.SimpleNamespace(
        states=lambda arrays: None, readout=lambda states: None
    )
    net = types.SimpleNamespace(forward=half, backward=half)
    objective = objectives.make_objective("lm", direction="both", sampled_words=9)
    batch = collections.defaultdict(lambda: None)
    objective.loss(net, batch, jax.random.key(0))
    assert len(keys) == 2
    assert keys[0] != keys[1]


def test_an_adaptive_softmax_is_refused():
    clusters = AdaptiveReadout(readout(np.zeros(SIZE)), (), (4,))
    with pytest.raises(UserError, match="one softmax over all words"):
        sampled_softmax.sampled_cross_entropy(clusters, None, None, None, 3)
