"""A task's number with its 95 % interval over items."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from research.evaluation.statistics import wilson_interval

PREDICTIONS = "predictions.json"
"""The file of a task's predictions, in the pipeline's folders."""

SPLITS = ("regular", "ambiref", "move_contents")
"""Of entity tracking: its number is the mean over these of the means of their UIDs."""


class Result(NamedTuple):
    """A task's number: a fraction, a correlation or a gain in explained variance."""

    value: float
    low: float  # ends of the interval; nan: there is none
    high: float
    count: int  # items
    groups: Mapping[str, Mapping[str, float]] = {}  # column -> group -> its number
    more: Mapping[str, float] = {}  # further numbers, by name

    def to_json(self) -> dict[str, Any]:
        """Its fields; null where there is no number."""
        fields = self._asdict()
        ends = {name: _finite(fields[name]) for name in ("value", "low", "high")}
        return fields | ends | {"more": {k: _finite(v) for k, v in self.more.items()}}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def accuracy_result(
    groups: Sequence[Mapping[str, str]],
    right: Sequence[bool],
    shared: Sequence[float],
    *,
    splits: Sequence[str] = (),
) -> Result:
    """The mean accuracy of UIDs, with Wilson's interval.

    The interval's number of items is that for which a rate would have the variance of
    this mean, with fixed UIDs and random items.

    Args:
      groups: for each item, column -> group; UID is one of the columns.
      right: whether an item's choice is the right one.
      shared: the same, but n equal scores count 1/n.
      splits: the UIDs that begin with one of these are averaged first.
    """
    columns: dict[str, dict[str, list[int]]] = {}
    for number, of_item in enumerate(groups):
        for column, group in of_item.items():
            members = columns.setdefault(column, {}).setdefault(group, [])
            members.append(number)
    uids = columns["UID"]
    weight = dict.fromkeys(uids, 1 / len(uids))
    if splits:
        of_split = {uid: next(s for s in splits if uid.startswith(s)) for uid in uids}
        sizes = {s: [*of_split.values()].count(s) for s in set(of_split.values())}
        weight = {uid: 1 / len(sizes) / sizes[of_split[uid]] for uid in uids}
    tables = {
        column: {
            group: float(np.mean([right[n] for n in members]))
            for group, members in by_group.items()
        }
        for column, by_group in columns.items()
    }
    of_uid = tables["UID"]
    value = sum(weight[uid] * of_uid[uid] for uid in uids)
    variance = sum(
        weight[uid] ** 2 * of_uid[uid] * (1 - of_uid[uid]) / max(1, len(members) - 1)
        for uid, members in uids.items()
    )
    count = value * (1 - value) / variance if variance else len(right)
    value = min(1.0, value)  # rounding may exceed 1
    low, high = wilson_interval(value, count)
    tied = sum(
        weight[uid] * float(np.mean([shared[n] for n in members]))
        for uid, members in uids.items()
    )
    if splits:
        for split in splits:
            members = [of_uid[uid] for uid in uids if of_split[uid] == split]
            if members:
                of_uid[split] = float(np.mean(members))
    ends = min(low, value), max(high, value)
    return Result(value, *ends, len(right), tables, {"ties shared": tied})


def rho_result(model: Sequence[float], human: Sequence[float]) -> Result:
    """Spearman's correlation with the interval of Bonett and Wright (2000)."""
    from scipy import stats  # imported when needed: it takes a second

    rho = float(stats.spearmanr(model, human).statistic)
    low, high = fisher_interval(rho, len(human), 1 + rho * rho / 2)
    return Result(rho, low, high, len(human), {"UID": {"avg": rho}})


def fisher_interval(r: float, count: int, factor: float = 1.0) -> tuple[float, float]:
    """The interval of a correlation, by Fisher's z with variance factor / (n - 3).

    It is nan for too few items or if |r| is 1.
    """
    if count < 4 or not abs(r) < 1:
        return math.nan, math.nan
    margin = 1.959964 * math.sqrt(factor / (count - 3))
    return tuple(math.tanh(math.atanh(r) + side * margin) for side in (-1, 1))
