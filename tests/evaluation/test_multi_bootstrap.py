"""The multi-bootstrap draws seeds and items, both arms alike."""

import numpy as np
import pytest

from research.evaluation.multi_bootstrap import (
    multi_bootstrap,
    percentile_interval,
    pseudo_values,
)
from research.evaluation.statistics import estimate


def _mean(scores):
    return lambda items: scores[:, items].mean(1)


def _draws(scores, num_draws=4000):
    rng = np.random.default_rng(0)
    return multi_bootstrap(_mean(scores), scores.shape[1], num_draws=num_draws, rng=rng)


def test_seeds_and_items_bring_their_variance():
    """That of a mean of n drawn with replacement is the population's over n."""
    rng = np.random.default_rng(1)
    seeds, items = rng.normal(size=(6, 1)), rng.normal(size=(1, 40))
    expected = seeds.var() / 6 + items.var() / 40
    assert _draws(seeds + items).var() == pytest.approx(expected, rel=0.1)
    assert _draws(seeds + 0 * items).var() == pytest.approx(seeds.var() / 6, rel=0.1)
    assert _draws(0 * seeds + items).var() == pytest.approx(items.var() / 40, rel=0.1)


def test_what_arms_share_cancels():
    rng = np.random.default_rng(2)
    shared = 10 * rng.normal(size=(5, 1)) + 10 * rng.normal(size=(1, 30))
    gap = rng.normal(size=(5, 30))
    first, second = shared + gap, shared
    rng = np.random.default_rng(0)
    draws = multi_bootstrap(
        lambda items: _mean(first)(items) - _mean(second)(items),
        30,
        num_draws=500,
        rng=rng,
    )
    assert draws == pytest.approx(_draws(gap, 500))


def test_three_seeds_give_the_range_of_their_means():
    """All three draws are the lowest with probability 1 / 27, above 2.5 %."""
    seeds = np.array([[1.0], [2.0], [4.0]]) * np.ones((1, 5))
    assert percentile_interval(_draws(seeds)) == (1.0, 4.0)


def test_pseudo_values_of_a_mean_are_its_scores():
    scores = np.random.default_rng(3).normal(size=(3, 12))
    assert pseudo_values(_mean(scores), 12) == pytest.approx(scores)


def test_pseudo_values_of_f1_have_its_variance():
    """As the bootstrap over items finds it, for one seed."""
    rng = np.random.default_rng(4)
    label = rng.random((1, 400)) < 0.3
    guess = np.where(rng.random((1, 400)) < 0.8, label, ~label)

    def f1(items):
        hits = (guess & label)[:, items].sum(1)
        return 2 * hits / (guess[:, items].sum(1) + label[:, items].sum(1))

    draws = multi_bootstrap(f1, 400, num_draws=2000, rng=rng)
    values = pseudo_values(f1, 400)
    assert values.mean() == pytest.approx(f1(np.arange(400))[0], abs=0.01)
    assert values.std() / 20 == pytest.approx(draws.std(), rel=0.1)


def test_intervals_of_f1_from_groups_of_items_contain_it():
    """Student's t on 20 pseudo-values: 95 +- 2 % of 1000 evaluations."""
    rng, covered = np.random.default_rng(5), 0
    for _ in range(1000):
        label = rng.random(200) < 0.3
        guess = np.where(rng.random(200) < 0.8, label, ~label)

        def f1(items, guess=guess, label=label):
            hits = (guess & label)[items].sum()
            return np.array([2 * hits / (guess[items].sum() + label[items].sum())])

        mean, margin, _ = estimate(pseudo_values(f1, 200, num_groups=20)[0])
        covered += abs(mean - 0.48 / 0.68) <= margin
    assert 930 <= covered <= 970
