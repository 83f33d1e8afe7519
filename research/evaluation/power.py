"""Power of the paired test: what seeds and items can show, and how many are needed."""

# S seeds, I items, D simulated data sets

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from research.evaluation.statistics import MIN_SEEDS, MeanVariance, mean_squares

NUM_DRAWS = 20_000
"""Simulated data sets: the standard error of a power of 0.8 is 0.003."""

MAX_SEEDS = 1000
"""The largest number of seeds that `seeds_needed` tries."""


class Components(NamedTuple):
    """The variances of a difference's parts, as a pilot estimates them."""

    seed: float
    item: float = 0.0
    interaction: float = 0.0


def estimate_components(gap: Sequence[Any]) -> Components:
    """The components of differences between two arms; negative ones are 0.

    Args:
      gap: [S] or [S, I], S >= 2; without items, these count as fixed.
    """
    values = np.asarray(gap, np.float64)
    if values.ndim == 1 or values.shape[1] == 1:
        return Components(float(values.reshape(len(values)).var(ddof=1)))
    num_seeds, num_items = values.shape
    seeds, items, interaction = map(float, mean_squares(values))
    return Components(
        max(seeds - interaction, 0) / num_items,
        max(items - interaction, 0) / num_seeds,
        interaction,
    )


def power(
    difference: float,
    components: Components,
    *,
    num_seeds: int,
    num_items: int,
    level: float = 0.05,
) -> float:
    """The rate at which the paired test rejects at a true difference.

    Simulates the test on normal draws by the mean squares, which are independent and
    chi-square distributed; the draws are the same in each call.

    Args:
      num_seeds: S >= MIN_SEEDS.
      num_items: I; with 1, only the seeds vary and only `components.seed` counts.
    """
    rng = np.random.default_rng(0)
    num_scores = num_seeds * num_items
    fixed = num_items == 1
    df_seeds, df_items = num_seeds - 1, num_items - 1
    seeds = components.seed / num_seeds
    items = 0.0 if fixed else components.item / num_items
    interaction = 0.0 if fixed else components.interaction / num_scores

    def draw(variance: float, df: int) -> np.ndarray:
        return variance * rng.chisquare(df, NUM_DRAWS) / df

    deviation = difference + rng.normal(size=NUM_DRAWS) * np.sqrt(
        seeds + items + interaction
    )
    by_seeds = draw(seeds + interaction, df_seeds)
    if fixed:
        variance = MeanVariance(by_seeds, 0 * by_seeds, df_seeds, np.inf)
    else:
        by_items = draw(items + interaction, df_items)
        by_items -= draw(interaction, df_seeds * df_items)
        variance = MeanVariance(by_seeds, np.maximum(by_items, 0), df_seeds, df_items)
    return float(np.mean(variance.p_value(deviation) <= level))


def seeds_needed(
    difference: float,
    components: Components,
    *,
    num_items: int,
    level: float = 0.05,
    target: float = 0.8,
) -> int | None:
    """The fewest seeds with which a test of this difference has the target power.

    An observed difference is a noisy estimate of the true one, and so is this number.
    None: more than MAX_SEEDS, as for a difference of 0 or too few items.
    """
    keys = {"num_items": num_items, "level": level}
    if power(difference, components, num_seeds=MAX_SEEDS, **keys) < target:
        return None
    low, high = MIN_SEEDS - 1, MAX_SEEDS  # `low` is too few, `high` is enough
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(difference, components, num_seeds=middle, **keys) >= target
        low, high = (low, middle) if enough else (middle, high)
    return high


def detectable_difference(
    components: Components,
    *,
    num_seeds: int,
    num_items: int,
    level: float = 0.05,
    target: float = 0.8,
) -> float:
    """The smallest difference with the target power, to a relative 1/1000."""
    sizes = {"num_seeds": num_seeds, "num_items": num_items, "level": level}
    high = float(np.sqrt(sum(components)))
    if high == 0:
        return 0.0
    while power(high, components, **sizes) < target:
        high *= 2
    low = 0.0
    while high - low > 1e-3 * high:
        middle = (low + high) / 2
        enough = power(middle, components, **sizes) >= target
        low, high = (low, middle) if enough else (middle, high)
    return high
