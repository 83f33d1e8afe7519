"""The multi-bootstrap over seeds and items (Sellam et al. 2022, MultiBERTs, section 3).

It serves metrics that are no mean over items (F1, Matthews, a correlation) and needs no
normal draws, but many seeds: docs/statistics.md says how many. With fewer,
`pseudo_values` makes such a metric a mean, for the t interval of
`research.evaluation.statistics`.
"""

# S seeds, I items, D draws

from collections.abc import Callable

import numpy as np

Metric = Callable[[np.ndarray], np.ndarray]
"""Indices of items [n] -> the metric of each seed on them [S].

Two arms whose seeds are shared are one metric, the difference of their metrics: drawing
a seed or an item then draws it for both.
"""


def multi_bootstrap(
    metric: Metric,
    num_items: int,
    *,
    num_draws: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draws [D] of the metric's mean over seeds, with seeds and items drawn anew.

    Items are drawn with replacement and the metric is computed on them; then seeds are
    drawn with replacement and averaged (google-research/language, multibootstrap.py,
    `multibootstrap` with paired_seeds=True). Average a seed's fine-tunings beforehand.
    """
    draws = np.empty(num_draws)
    for index in range(num_draws):
        by_seed = metric(rng.integers(num_items, size=num_items))
        draws[index] = by_seed[rng.integers(len(by_seed), size=len(by_seed))].mean()
    return draws


def percentile_interval(
    draws: np.ndarray, *, level: float = 0.95
) -> tuple[float, float]:
    """The interval between two quantiles of bootstrap draws [D]."""
    tail = (1 - level) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return float(low), float(high)


def pseudo_values(
    metric: Metric, num_items: int, *, num_groups: int | None = None
) -> np.ndarray:
    """The jackknife's pseudo-values [S, G] of a metric (Tukey 1958).

    G * metric(all) - (G - 1) * metric(all but group g): of a mean they are the groups'
    own means, of another smooth metric they behave like scores whose mean it is.

    Args:
      num_groups: G, of equal size but for one item; None: a group for each item.
    """
    items = np.arange(num_items)
    groups = np.array_split(items, num_groups or num_items)
    without = [metric(np.delete(items, group)) for group in groups]
    count = len(groups)
    return (count * metric(items) - (count - 1) * np.array(without)).T
