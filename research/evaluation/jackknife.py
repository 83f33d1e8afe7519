"""The jackknife, which expresses a metric that is no mean as a mean over items.

Such metrics are F1, Matthews and correlations; `research.evaluation.statistics` has the
t interval of the mean.
"""

# S seeds, I items, G groups of items

from collections.abc import Callable

import numpy as np

Metric = Callable[[np.ndarray], np.ndarray]
"""Indices of items [n] -> the metric of each seed on them [S]."""


def pseudo_values(
    metric: Metric, num_items: int, *, num_groups: int | None = None
) -> np.ndarray:
    """The jackknife's pseudo-values [S, G] of a metric (Tukey 1958).

    G * metric(all) - (G - 1) * metric(all but group g): for a mean they are the groups'
    means; for another smooth metric they behave like scores whose mean it is.

    Args:
      num_groups: G, of sizes that differ by at most one; None: one group per item.
    """
    items = np.arange(num_items)
    groups = np.array_split(items, num_groups or num_items)
    without = [metric(np.delete(items, group)) for group in groups]
    count = len(groups)
    return (count * metric(items) - (count - 1) * np.array(without)).T
