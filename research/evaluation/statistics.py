"""Means over seeds with Student's t confidence intervals, and paired t-tests."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Estimate(NamedTuple):
    """A mean with its confidence interval, mean +- margin."""

    mean: float
    margin: float  # half the width of the interval; nan for a single value
    count: int


def estimate(values: Sequence[float], *, level: float = 0.95) -> Estimate:
    """The mean of independent draws with a Student t interval (Student 1908).

    Args:
      values: [n], n >= 1.
      level: of confidence, the rate at which such intervals contain the true mean of
        normal draws.
    """
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return Estimate(mean, float("nan"), count)
    from scipy import stats  # imported when needed: it takes a second

    quantile = stats.t.ppf((1 + level) / 2, count - 1)
    return Estimate(mean, float(quantile * stats.sem(values)), count)


def paired_test(values: Sequence[float], others: Sequence[float]) -> float:
    """The two-sided p-value of Student's paired t-test; nan for fewer than two pairs.

    Args:
      values: [n].
      others: [n], of the same seeds in the same order.
    """
    gap = np.subtract(values, others)
    if len(gap) < 2:
        return float("nan")
    size = np.max(np.abs(values)) + np.max(np.abs(others))
    if np.ptp(gap) <= 1e-12 * size:  # no variance but rounding: t is not defined
        return float(np.max(np.abs(gap)) <= 1e-12 * size)
    from scipy import stats

    return float(stats.ttest_1samp(gap, 0.0).pvalue)
