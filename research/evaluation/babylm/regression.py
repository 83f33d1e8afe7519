"""Ordinary least squares with an intercept, products of columns and missing values."""

# n rows, P columns

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np


class Fit(NamedTuple):
    """A least-squares fit, with the coefficient of the last column and its test."""

    r_squared: float
    aic: float  # Akaike's criterion, with a normal likelihood
    coefficient: float
    t: float  # coefficient / standard error
    p_value: float  # two-sided, of Student's t


def r_squared(design: np.ndarray, target: np.ndarray) -> float:
    """The explained fraction of a target's variance; nan for a constant target."""
    left = _residual(design, target)
    spread = target - target.mean()
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(1 - np.float64(left @ left) / (spread @ spread))


def fit(design: np.ndarray, target: np.ndarray) -> Fit:
    """The fit of a target [n] by a design [n, P] with an intercept."""
    from scipy import stats  # imported when needed: it takes a second

    inverse = np.linalg.pinv(design)
    coefficients = inverse @ target
    left = target - design @ coefficients
    rank = int(np.linalg.matrix_rank(design))
    count, total = len(target), float(left @ left)
    free = count - rank
    error = np.sqrt(total / free * (inverse @ inverse.T)[-1, -1])
    t = float(coefficients[-1] / error)
    likelihood = -count / 2 * (np.log(2 * np.pi * total / count) + 1)
    return Fit(
        r_squared(design, target),
        float(-2 * likelihood + 2 * rank),
        float(coefficients[-1]),
        t,
        float(2 * stats.t.sf(abs(t), free)),
    )


def _residual(design: np.ndarray, target: np.ndarray) -> np.ndarray:
    return target - design @ np.linalg.lstsq(design, target, rcond=None)[0]


def make_design(columns: Sequence[np.ndarray], more: Sequence[np.ndarray] = ()):
    """[n, P]: 1, the columns, their pairwise products, and more columns."""
    products = [a * b for a, b in itertools.combinations(columns, 2)]
    return np.stack([np.ones_like(columns[0]), *columns, *products, *more], axis=1)


def complete(table: Mapping[str, np.ndarray], names: Sequence[str]) -> np.ndarray:
    """[n] bool: rows with a number in all of these columns."""
    return np.all([~np.isnan(table[name]) for name in names], axis=0)


def gain(base: float, model: float) -> float:
    """The fraction that a model explains of the variance that its base leaves."""
    return (model - base) / (1 - base)
