"""Power is the rate of the test, and the noncentral t's where only seeds vary."""

import math

import numpy as np
import pytest
from scipy import stats

from research.evaluation import power
from research.evaluation.power import Components
from research.evaluation.statistics import mean_variance

SEEDS_ALONE = {"num_items": 1}


def _noncentral(difference, num_seeds, level=0.05):
    """Power of Student's t at unit variance, in closed form."""
    shift = difference * math.sqrt(num_seeds)
    critical = stats.t.ppf(1 - level / 2, num_seeds - 1)
    both = stats.nct(num_seeds - 1, shift)
    return both.sf(critical) + both.cdf(-critical)


@pytest.mark.parametrize("num_seeds, difference", [(3, 1.0), (5, 1.0), (10, 0.0)])
def test_power_over_seeds_is_that_of_the_noncentral_t(num_seeds, difference):
    found = power.power(difference, Components(1.0), num_seeds=num_seeds, num_items=1)
    expected = _noncentral(difference, num_seeds)
    spread = math.sqrt(expected * (1 - expected) / power.NUM_DRAWS)
    assert abs(found - expected) < 4 * spread


def test_power_over_items_is_the_rate_of_the_test():
    parts, num_seeds, num_items = Components(1.0, 4.0, 2.0), 4, 12
    rng, draws = np.random.default_rng(5), 20_000
    scores = 1.5 + rng.normal(size=(draws, num_seeds, 1))
    scores = scores + 2.0 * rng.normal(size=(draws, 1, num_items))
    scores += math.sqrt(2.0) * rng.normal(size=(draws, num_seeds, num_items))
    p = mean_variance(scores).p_value(scores.mean((1, 2)))
    found = power.power(1.5, parts, num_seeds=num_seeds, num_items=num_items)
    assert abs(found - np.mean(p <= 0.05)) < 4 * math.sqrt(2 * 0.25 / draws)


def test_no_plan_is_of_fewer_seeds_than_a_test_has():
    assert power.seeds_needed(1e3, Components(1.0), **SEEDS_ALONE) == 3


def test_seeds_needed_are_the_fewest_with_the_power():
    needed = power.seeds_needed(1.0, Components(1.0), **SEEDS_ALONE)
    assert _noncentral(1.0, needed) >= 0.8 > _noncentral(1.0, needed - 1)
    assert power.seeds_needed(0.0, Components(1.0), **SEEDS_ALONE) is None
    few_items = Components(1.0, 100.0)
    assert power.seeds_needed(1.0, few_items, num_items=10) is None
    assert power.seeds_needed(1.0, few_items, num_items=10_000) < 15


def test_the_detectable_difference_has_the_power():
    size = power.detectable_difference(Components(1.0), num_seeds=10, num_items=1)
    assert _noncentral(size, 10) == pytest.approx(0.8, abs=0.01)


def test_components_are_those_that_made_the_scores():
    rng = np.random.default_rng(4)
    scores = 2.0 * rng.normal(size=(200, 1)) + 3.0 * rng.normal(size=(1, 300))
    scores = scores + rng.normal(size=(200, 300))
    found = power.estimate_components(scores)
    assert found == pytest.approx(Components(4.0, 9.0, 1.0), rel=0.25)
    by_seed = power.estimate_components(scores.mean(1))
    assert by_seed == Components(float(scores.mean(1).var(ddof=1)))
