"""Means over seeds and items with t intervals, paired tests, and Holm's correction.

Scores are one number per seed, or a matrix seeds x items. Both seeds and items are
random draws: the interval is for the mean over new seeds and new items.
docs/statistics.md has the coverage of the intervals and the level of the tests.
"""

# S seeds, I items; ... independent data sets, for simulations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

ROUNDING = 1e-12
"""Differences below this fraction of the values count as rounding errors."""

MIN_SEEDS = 3
"""The fewest seeds for a test, and for an interval over seeds and items. With two, the
test errs too often (docs/statistics.md), and with scores that are counts, such as exact
matches, two gaps are often equal, so that there is no variance.
"""


class Estimate(NamedTuple):
    """A mean with its confidence interval, mean +- margin."""

    mean: float
    margin: float  # half the width of the interval; nan for a single seed
    count: int  # of seeds


class MeanVariance(NamedTuple):
    """The estimated variance of a mean over seeds and items, in its two parts."""

    seeds: np.ndarray  # [...]; the part of seeds and the interaction
    items: np.ndarray  # [...]; the further part of items; 0 if they are fixed
    seed_df: float  # degrees of freedom, S - 1
    item_df: float  # I - 1; infinite if items are fixed

    def p_value(self, deviation: np.ndarray) -> np.ndarray:
        """The two-sided p-value of a mean that lies `deviation` from its hypothesis.

        With t = deviation / sqrt(seeds + items), it is the mean of the p-values of
        Student's t with the degrees of freedom of either part, weighted by the parts:
        Cochran's approximation (1964, Biometrics 20) with p-values averaged instead of
        critical values. Satterthwaite's (1946) is too liberal for few seeds, especially
        at the small levels that Holm's correction requires.
        """
        from scipy import stats  # imported when needed: it takes a second

        total = self.seeds + self.items
        with np.errstate(divide="ignore", invalid="ignore"):
            t, weight = np.abs(deviation) / np.sqrt(total), self.seeds / total
        by_seeds = stats.t.sf(t, self.seed_df)
        by_items = stats.t.sf(t, self.item_df)
        return 2 * (weight * by_seeds + (1 - weight) * by_items)

    def margin(self, level: float) -> float:
        """The deviation whose p-value is 1 - level, for a single data set.

        nan if a score is.
        """
        from scipy import optimize, stats

        size = float(np.sqrt(self.seeds + self.items))
        if math.isnan(size):
            return size
        ends = stats.t.ppf((1 + level) / 2, [self.seed_df, self.item_df])
        if self.items == 0:  # Student's t
            return size * float(ends[0])
        ends = [min(ends) * (1 - 1e-9), max(ends) * (1 + 1e-9)]
        return size * optimize.brentq(
            lambda t: self.p_value(t * size) - (1 - level), *ends, xtol=1e-13
        )


def mean_variance(scores: np.ndarray) -> MeanVariance:
    """The variance of the mean of scores, as two-way random effects give it.

    With y[s, i] = mean + seed[s] + item[i] + interaction[s, i], the seeds' part is
    MS_seed / (S I), which estimates var(seed) / S + var(interaction) / (S I), and the
    items' part (MS_item - MS_interaction) / (S I), at least 0, which estimates
    var(item) / I (Searle, Casella and McCulloch 1992, section 4.3).

    If all seeds have the same mean up to rounding, as can happen with counts of few
    items, MS_interaction replaces MS_seed, whose expectation is not below its own: a
    variance of 0 would make any mean certain.

    Args:
      scores: [..., S, I], S >= 2, I >= 2.
    """
    num_seeds, num_items = scores.shape[-2:]
    seeds, items, interaction = mean_squares(scores)
    differ = seeds > ROUNDING * interaction
    return MeanVariance(
        np.where(differ, seeds, interaction) / (num_seeds * num_items),
        np.maximum(items - interaction, 0) / (num_seeds * num_items),
        num_seeds - 1,
        num_items - 1,
    )


def mean_squares(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean squares [...] of seeds, items and their interaction.

    Args:
      scores: [..., S, I], S >= 2, I >= 2.
    """
    num_seeds, num_items = scores.shape[-2:]
    centred = scores - scores.mean((-2, -1), keepdims=True)
    seeds = num_items * np.square(centred.mean(-1)).sum(-1)
    items = num_seeds * np.square(centred.mean(-2)).sum(-1)
    total = np.square(centred).sum((-2, -1))
    interaction = np.maximum(total - seeds - items, 0)  # below 0 only by rounding
    df_seeds, df_items = num_seeds - 1, num_items - 1
    return seeds / df_seeds, items / df_items, interaction / (df_seeds * df_items)


def estimate(scores: Sequence[Any], *, level: float = 0.95) -> Estimate:
    """The mean of scores with a confidence interval.

    Args:
      scores: [S], S >= 1, if only the seeds vary: Student's t (1908). Or [S, I], if
        items are random as well, with no interval below MIN_SEEDS.
      level: of confidence, the rate at which such intervals contain the true mean of
        normal draws.
    """
    values = np.asarray(scores, np.float64)
    mean, count = float(np.mean(values)), len(values)
    if count < (MIN_SEEDS if _has_items(values) else 2):
        return Estimate(mean, float("nan"), count)
    return Estimate(mean, _variance(values).margin(level), count)


def wilson_interval(
    mean: float, count: int, *, level: float = 0.95
) -> tuple[float, float]:
    """The interval of a rate of success (Wilson 1927), valid also at 0 and 1.

    Args:
      mean: of `count` scores between 0 and 1. Scores of a half vary less than scores of
        0 and 1 with the same mean; with these the interval is too wide.
    """
    from scipy import stats

    z = float(stats.norm.ppf((1 + level) / 2))
    centre = (mean + z * z / (2 * count)) / (1 + z * z / count)
    root = math.sqrt(mean * (1 - mean) / count + (z / (2 * count)) ** 2)
    margin = z * root / (1 + z * z / count)
    return max(0.0, centre - margin), min(1.0, centre + margin)


def paired_test(scores: Sequence[Any], others: Sequence[Any]) -> float:
    """The two-sided p-value of a difference of means; nan below MIN_SEEDS.

    If all seeds have the same gap, t is undefined: p is 1 if the gap is 0, else nan.
    This does not happen with continuous scores, and with counts it is chance. The same
    gap in all seeds and items is not chance: its p is 0.

    Args:
      scores: [S] or [S, I], as for `estimate`.
      others: the same shape, of the same seeds and items in the same order.
    """
    values, baseline = np.asarray(scores, float), np.asarray(others, float)
    gap = values - baseline
    if len(gap) < MIN_SEEDS:
        return float("nan")
    rounding = ROUNDING * (np.max(np.abs(values)) + np.max(np.abs(baseline)))
    if np.max(np.abs(gap)) <= rounding:
        return 1.0
    if np.ptp(gap) <= rounding:
        return 0.0 if _has_items(gap) else float("nan")
    return float(_variance(gap).p_value(gap.mean()))


def _variance(values: np.ndarray) -> MeanVariance:
    """The variance of the mean of [S] or [S, I]; a single item is fixed."""
    if _has_items(values):
        return mean_variance(values)
    by_seed = values.reshape(len(values))
    part = by_seed.var(ddof=1) / len(by_seed)
    return MeanVariance(part, 0 * part, len(by_seed) - 1, np.inf)


def _has_items(values: np.ndarray) -> bool:
    """Whether values are [S, I] of more than one item."""
    return values.ndim == 2 and values.shape[1] > 1


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's adjusted p-values [n], which control the family-wise error (Holm 1979).

    A hypothesis is rejected at level a iff its adjusted p-value is at most a. nan
    values are not part of the family.
    """
    p = np.asarray(p_values, np.float64)
    adjusted, known = np.full(p.shape, np.nan), np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def signal_to_noise(means: Sequence[float], noise: Sequence[Sequence[float]]) -> float:
    """How well a benchmark separates models, in units of its noise (Heineman 2025).

    The signal is the range of the models' scores over their mean, the noise the
    standard deviation of repeated scores over their mean (allenai/signal-and-noise,
    snr/metrics.py); with several models' repetitions, the root mean square of their
    deviations. The range grows with the number of models.

    Args:
      means: [M], one score per model.
      noise: for one or more models, the scores of its last checkpoints or its seeds.
    """
    signal = np.ptp(means) / np.mean(means)
    deviations = [np.square(np.subtract(row, np.mean(row))) for row in noise]
    spread = np.sqrt(np.mean(np.concatenate(deviations)))
    return float(signal / (spread / np.mean(np.concatenate(noise))))
