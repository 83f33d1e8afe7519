"""Pseudo-values of metrics: those of a mean, and of F1."""

import numpy as np
import pytest

from research.evaluation.jackknife import pseudo_values
from research.evaluation.statistics import estimate


def _mean(scores):
    return lambda items: scores[:, items].mean(1)


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

    draws = [f1(rng.integers(400, size=400)) for _ in range(2000)]
    values = pseudo_values(f1, 400)
    assert values.mean() == pytest.approx(f1(np.arange(400))[0], abs=0.01)
    assert values.std() / 20 == pytest.approx(np.std(draws), rel=0.1)


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
