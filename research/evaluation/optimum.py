"""The value of a varied number (a rate, a network's size) with the lowest loss.

A parabola in the number's logarithm is fitted around the lowest mean, as Hoffmann et
al. (2022, section 3.2) do for losses of one budget over sizes of the network.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

LEVEL = 0.95
SIDE = 2
"""Number of points on either side of the best one that a fit uses."""


class Optimum(NamedTuple):
    """The minimum of a parabola, with its interval, and the value there."""

    place: float
    low: float  # 0 and infinity if the data do not bound it
    high: float
    value: float
    coefficients: tuple[float, float, float]  # in log(place), the highest power first
    error: float  # standard error of log(place)

    def at(self, places: np.ndarray) -> np.ndarray:
        """The parabola's values at places [N] above 0."""
        return np.polyval(self.coefficients, np.log(places))


def find_optimum(points: Mapping[float, Sequence[float]]) -> Optimum | None:
    """The minimum of the parabola fitted to values at some places.

    The fit uses the place of the lowest mean and two on either side. The interval is
    Fieller's, for the ratio of two coefficients.

    Args:
      points: place above 0 -> its values, one per seed.

    Returns:
      None if there is no minimum within the places: the lowest mean is at the first or
      the last one, or the parabola opens downwards.
    """
    from scipy import stats  # imported when needed: it takes a second

    places = sorted(points)
    means = [float(np.mean(points[place])) for place in places]
    best = int(np.argmin(means)) if means else 0
    if not 0 < best < len(places) - 1:
        return None
    taken = places[max(0, best - SIDE) : best + SIDE + 1]
    x = np.repeat(np.log(taken), [len(points[place]) for place in taken])
    y = np.concatenate([points[place] for place in taken])
    centre = float(np.mean(x))
    design = np.vander(x - centre, 3)
    (square, slope, level), *_ = np.linalg.lstsq(design, y)
    if square <= 0:
        return None
    shift = -slope / (2 * square)
    freedom = len(x) - 3
    residual = y - design @ np.array([square, slope, level])
    low, high, error = -math.inf, math.inf, math.nan
    if freedom > 0:
        noise = residual @ residual / freedom
        covariance = noise * np.linalg.inv(design.T @ design)
        # shift = top / below, of which top = -slope and below = 2 x square
        top, below = -slope, 2 * square
        of_top, of_below, of_both = (
            covariance[1, 1],
            4 * covariance[0, 0],
            -2 * covariance[0, 1],
        )
        of_shift = of_top - 2 * shift * of_both + shift**2 * of_below
        error = math.sqrt(max(of_shift, 0.0)) / below
        t = stats.t.ppf((1 + LEVEL) / 2, freedom)
        a = below**2 - t**2 * of_below
        b = top * below - t**2 * of_both
        c = top**2 - t**2 * of_top
        if a > 0:
            root = math.sqrt(max(b**2 - a * c, 0.0))
            low, high = (b - root) / a, (b + root) / a
    fitted = np.polynomial.Polynomial([level, slope, square])
    moved = fitted(np.polynomial.Polynomial([-centre, 1.0])).coef
    return Optimum(
        place=math.exp(centre + shift),
        low=math.exp(centre + low),
        high=math.exp(centre + high) if high < math.inf else math.inf,
        value=float(level + slope * shift + square * shift**2),
        coefficients=(float(moved[2]), float(moved[1]), float(moved[0])),
        error=error,
    )


def exponent(found: Mapping[float, Optimum]) -> tuple[float, float] | None:
    """The exponent of the power law from lines' numbers, e.g. budgets, to best places.

    A straight line in logarithms; the interval follows from the errors of the places.

    Returns:
      The exponent and half of its 95 % interval; None with fewer than three lines, or
      if a place has no error.
    """
    errors = np.array([optimum.error for optimum in found.values()])
    if len(found) < 3 or np.isnan(errors).any():
        return None
    u = np.log([*found])
    v = np.log([optimum.place for optimum in found.values()])
    weight = (u - u.mean()) / ((u - u.mean()) ** 2).sum()
    margin = 1.96 * float(np.sqrt((weight**2) @ errors**2))
    return float(weight @ v), margin
