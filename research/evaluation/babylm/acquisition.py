"""Ages at which children and a model acquire words, by sigmoids of their curves."""

# T points of a curve

import csv
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from research.contract.errors import UserError
from research.evaluation.babylm.rules import Rules, checkpoint_number

MONTHS = tuple(map(str, range(16, 31)))
"""Columns of cdi_human.csv."""
LEAST_POINTS = 3
"""The fewest points of a curve, and words of a correlation."""
OLD_CEILING = float(np.log2(300_000))
"""The surprisal of chance under babylm_2025, whatever the vocabulary: bits, though
surprisals are nats."""
MOST_P = 0.1
"""With bounded fits a correlation that is less certain counts 0."""


class Acquisition(NamedTuple):
    """The correlation of ages, and the words that have both."""

    score: float  # the correlation, or 0 by the rules
    r: float  # the correlation; nan of fewer than LEAST_POINTS words
    words: tuple[str, ...]
    model: tuple[float, ...]  # log10 of words seen
    child: tuple[float, ...]  # months


def sigmoid(x: Any, a: float, b: float, c: float, d: float) -> Any:
    """A sigmoid of height a above d, with slope b at its middle c."""
    return a / (1 + np.exp(-b * (x - c))) + d


def _crossing(curve: Sequence[float], level: float) -> float | None:
    """Where a fitted sigmoid reaches a level; None: nowhere."""
    a, b, c, d = curve
    if not d < level < a + d:
        return None
    return float(c - np.log(a / (level - d) - 1) / b)


def _fit(x: np.ndarray, y: np.ndarray, **options: Any) -> np.ndarray | None:
    """The least-squares sigmoid; None if the search does not converge."""
    from scipy import optimize  # imported when needed: it takes a second

    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return optimize.curve_fit(sigmoid, x, y, **options)[0]
    except (RuntimeError, ValueError):
        return None


def child_age(shares: Sequence[float], months: Sequence[int]) -> float | None:
    """The month at which half of the children say a word; None: outside of `months`.

    Args:
      shares: fractions of children at each month; nan where unknown.
    """
    shares, months = np.asarray(shares, float), np.asarray(months)
    known = ~np.isnan(shares)
    if known.sum() < LEAST_POINTS:
        return None
    shares, months = shares[known], months[known]
    curve = _fit(
        months,
        shares,
        p0=[1.0, 0.1, np.mean(months), 0.0],
        bounds=([0, 0, months[0], -0.5], [2.0, 1.0, months[-1], 0.5]),
        maxfev=1000,
    )
    if curve is None or curve[0] <= 0 or curve[1] <= 0:
        return None
    age = _crossing(curve, 0.5)
    return age if age is not None and months[0] <= age <= months[-1] else None


def model_age(
    words_seen: Sequence[float],
    surprisals: Sequence[float],
    ceiling: float,
    *,
    bounded: bool,
) -> float | None:
    """log10 of the words after which surprisal is halfway to its minimum.

    It is halfway from chance (Chang and Bergen 2022); None: it never is.

    Args:
      ceiling: the surprisal of chance.
      bounded: see `is_bounded`.
    """
    seen, surprisal = np.asarray(words_seen, float), np.asarray(surprisals, float)
    known = ~np.isnan(surprisal)
    if len(seen) < LEAST_POINTS or not known.any():
        return None
    seen, y = seen[known], -surprisal[known]
    x, low, high = np.log10(seen + 1), y.min(), y.max()
    size = high - low
    options: dict[str, Any] = {"p0": [size, 1.0, np.mean(x), low], "maxfev": 1000}
    if bounded:
        least = [0.0, 0.0, x.min() - 1, low - 2 * size - 1]
        most = [10 * size + 1, 100.0, x.max() + 1, high + 1]
        options |= {"bounds": (least, most), "maxfev": 20_000}
    curve = _fit(x, y, **options)
    floor = 1e-6 if bounded else 0.0
    if curve is None or curve[0] <= floor or curve[1] <= floor:
        return None
    age = _crossing(curve, -(ceiling - 0.5 * (ceiling + high)))
    if age is None or not seen[0] <= 10**age - 1 <= seen[-1]:
        return None
    return age


def is_bounded(rules: Rules) -> bool:
    """Whether the fit of a word's curve has bounds and reads the means of contexts.

    Its ceiling is then that of chance, and a correlation with p > .1 counts as 0.
    """
    return rules.year >= 2026


def score_acquisition(
    results: Iterable[Mapping[str, Any]],
    children: Mapping[str, Sequence[float]],
    rules: Rules,
    ceiling: Any,
) -> Acquisition:
    """The correlation of the ages of words in a model and in children.

    Args:
      results: entries of surprisal.json, with step, target_word and surprisal.
      children: word -> fractions of children at MONTHS.
      ceiling: word -> the surprisal of chance, for bounded fits.
    """
    from scipy import stats

    curves: dict[str, list[tuple[float, float]]] = {}
    for entry in results:
        seen = checkpoint_number(entry["step"])
        point = float(seen), float(entry["surprisal"])
        curves.setdefault(entry["target_word"], []).append(point)
    found = []
    for word, points in curves.items():
        if word not in children:
            continue
        child = child_age(children[word], [*map(int, MONTHS)])
        if child is None:
            continue
        seen, surprisal = np.array(points).T
        chance = OLD_CEILING
        if is_bounded(rules):
            steps = np.unique(seen)
            surprisal = np.array([surprisal[seen == step].mean() for step in steps])
            seen, chance = steps, ceiling(word)
        age = model_age(seen, surprisal, chance, bounded=is_bounded(rules))
        if age is not None:
            found.append((word, age, child))
    words, model, child = zip(*found, strict=True) if found else ((), (), ())
    score, r = 0.0, float("nan")
    if len(words) >= LEAST_POINTS:
        r, p = map(float, stats.pearsonr(model, child))
        score = 0.0 if is_bounded(rules) and p > MOST_P else r
    return Acquisition(score, r, words, model, child)


def read_children(path: Path) -> dict[str, list[float]]:
    """Word -> fractions of children at MONTHS, from cdi_human.csv.

    Raises:
      UserError: there is no such file, or it lacks columns.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with path.open(encoding="utf-8", newline="") as file:
        rows = [*csv.DictReader(file)]
    if not rows or {"word", *MONTHS} - rows[0].keys():
        raise UserError(f"{path} must have columns word and {MONTHS[0]} to 30")
    children: dict[str, list[float]] = {}
    for row in rows:  # if a word occurs twice, the first row counts
        shares = [float(row[month] or "nan") for month in MONTHS]
        children.setdefault(row["word"], shares)
    return children
