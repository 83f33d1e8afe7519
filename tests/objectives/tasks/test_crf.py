"""A linear-chain CRF against a search over all sequences of tags."""

import itertools

import jax
import numpy as np
import pytest

from research.objectives.tasks import crf

N = 3
IS_WORD = np.array(
    [
        [0, 1, 1, 0, 1, 0, 1],  # with continuation pieces between
        [1, 1, 1, 0, 0, 0, 0],  # with padding behind
        [0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ],
    bool,
)


def scores_of_all(transition, emission, is_word):
    """Sequences of tags of a row's words -> the score of each (equation 1)."""
    found = {}
    emission = emission[is_word]
    for tags in itertools.product(range(N), repeat=len(emission)):
        steps = itertools.pairwise([N, *tags, N])
        found[tags] = sum(transition[step] for step in steps) + sum(
            row[tag] for row, tag in zip(emission, tags, strict=True)
        )
    return found


@pytest.mark.parametrize("seed", range(2))
def test_the_loss_and_the_best_tags_are_those_of_a_search(seed):
    rng = np.random.default_rng(seed)
    transition = rng.normal(size=(N + 1, N + 1)).astype(np.float32)
    emission = rng.normal(size=(*IS_WORD.shape, N)).astype(np.float32)
    target = rng.integers(0, N, IS_WORD.shape, dtype=np.int32)

    def loss(emission):
        each = crf.negative_log_likelihood(transition, emission, target, IS_WORD)
        return each.sum(), each

    grad, each = jax.jit(jax.grad(loss, has_aux=True))(emission)
    best = np.asarray(crf.best_tags(transition, emission, IS_WORD))
    marginals = crf.marginals(transition, emission, IS_WORD)
    for row, is_word in enumerate(IS_WORD):
        scores = scores_of_all(transition, emission[row], is_word)
        log_z = np.log(sum(np.exp(np.float64(score)) for score in scores.values()))
        right = tuple(target[row, is_word].tolist())
        assert each[row] == pytest.approx(log_z - scores[right], abs=1e-5)
        assert tuple(best[row, is_word].tolist()) == max(scores, key=scores.get)
        for n, position in enumerate(np.flatnonzero(is_word)):
            for tag in range(N):  # minus the gradient: is it the target, minus p(tag)
                p = sum(np.exp(s - log_z) for y, s in scores.items() if y[n] == tag)
                expected = p - (right[n] == tag)
                assert grad[row, position, tag] == pytest.approx(expected, abs=1e-5)
                assert marginals[row, position, tag] == pytest.approx(p, abs=1e-5)
    assert not grad[~IS_WORD].any() and each[3] == 0
