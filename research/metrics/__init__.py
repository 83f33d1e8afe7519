"""Metrics of an evaluation: each module measures one, and says which way is better.

Of what an objective predicts (`research.predictions`) all metrics of that
kind are measured. A module is found by listing this folder: nothing else names it.
"""

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from research.contract.parts import Folder

HIGHER, LOWER = "higher", "lower"
"""What is better."""

METRICS = Folder("research.metrics", "Metric", named_by="train.best_metric")
PREDICTIONS = Folder("research.predictions", "Prediction")  # which imports this module


class Item(NamedTuple):
    """One example: what was predicted, and what is right, None if that is unknown."""

    id: str
    prediction: Any
    gold: Any
    score: float | None  # 1 for right and 0 for wrong, or a part of that
    texts: tuple[str, ...] = ()  # the parts of the example
    details: Mapping[str, Any] = MappingProxyType({})  # more of the prediction, such as
    # `probabilities` of classes


class Scores(NamedTuple):
    """The items of an evaluation, in the order of the text, and the metrics of all."""

    items: list[Item]
    metrics: dict[str, float]
    margins: Mapping[str, float] = MappingProxyType({})  # of metrics of items: half the
    # width of their 95 % intervals over items, where they were asked for
    notes: Mapping[str, str] = MappingProxyType({})  # of metrics: see `Metric.note`


class Value(NamedTuple):
    """One number that a metric measures."""

    name: str
    better: str = HIGHER
    least: float = 0.0
    most: float = 1.0  # 100 for a percentage; inf: it has no upper bound
    unit: str = ""  # "": a fraction, a percentage or a coefficient
    mean_of_scores: bool = False  # whether it is the mean of the items' scores
    undefined: str = ""  # where it is not defined and left out; "": nowhere
    undefined_counts: float | None = None  # what tables count there, by convention
    constant: float | None = None  # that of one prediction for all items, where it
    # tells a run that has learnt nothing

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is."""
        return 1 if self.better == HIGHER else -1

    def percent(self, value: float) -> float:
        """A value, or a margin, as tables show it: of 100, if it has an upper bound."""
        return value if math.isinf(self.most) else value * (100 / self.most)


class Metric:
    """The base of all metrics; a module has several values if one call gives them all.

    A metric is a frozen dataclass without fields. Each module of this folder defines
    exactly one, a class named `Metric`; it imports its library where it measures.
    """

    kinds: tuple[str, ...]
    """The kinds of predictions that it measures; () of what needs no predictions. A
    kind may also name its metrics itself (`Prediction.metrics`)."""

    values: tuple[Value, ...]

    def measure(self, items: Sequence[Item], labels: Sequence[str]) -> dict[str, float]:
        """The values by name, without those that are not defined.

        Args:
          items: one or more, all with gold.
          labels: all single ones that the training text has; classes are in the order
            of their data set, if it has one.
        """
        raise NotImplementedError

    def note(self, items: Sequence[Item]) -> str:
        """How the values are measured, where the items decide it; "": as usual."""
        return ""


@functools.cache
def all_metrics() -> tuple[Metric, ...]:
    """The metrics of all modules of this folder, by name."""
    return tuple(METRICS.part_class(name, "metric")() for name in METRICS.names())


def metrics_of(kind: str) -> list[Metric]:
    """The metrics of a kind of predictions, by name; "": none."""
    if not kind:
        return []
    named = PREDICTIONS.part_class(kind, "predicts").metrics  # type: ignore[attr-defined]
    return [
        metric
        for name, metric in zip(METRICS.names(), all_metrics(), strict=True)
        if kind in metric.kinds or name in named
    ]


def values_of(kind: str) -> dict[str, Value]:
    """Name -> value, of all metrics of a kind of predictions."""
    return {v.name: v for metric in metrics_of(kind) for v in metric.values}


def mean_of_scores(kind: str) -> Value | None:
    """The value of a kind of predictions that is the mean of its items' scores."""
    means = (value for value in values_of(kind).values() if value.mean_of_scores)
    return next(means, None)


def ranges(names: Iterable[str], kind: str) -> dict[str, tuple[float, float]]:
    """Name -> the least and the greatest value that it can have, where both are finite.

    Fractions are of 1, in files and on the terminal; BLEU and chrF are of 100, as their
    library has them. Tables show all of these in per cent.

    Args:
      names: of metrics, such as "valid/accuracy".
      kind: of predictions.
    """
    declared = values_of(kind)
    found = {name: declared.get(name.rpartition("/")[2]) for name in names}
    return {
        name: (value.least, value.most)
        for name, value in found.items()
        if value and math.isfinite(value.least) and math.isfinite(value.most)
    }


def ranges_line(found: Mapping[str, Sequence[float]]) -> str:
    """The result of `ranges` in a line for the user; "" of none."""
    groups: dict[str, list[str]] = {}
    for name, (least, most) in found.items():
        own = groups.setdefault(f"from {least:g} to {most:g}", [])
        if (short := name.rpartition("/")[2]) not in own:
            own.append(short)
    return "; ".join(f"{', '.join(own)}: {words}" for words, own in groups.items())


def signs() -> dict[str, int]:
    """Name -> 1 where higher is better, -1 where lower is, of all values.

    Those of one name agree, whatever kind of predictions they are of.
    """
    return {v.name: v.sign for metric in all_metrics() for v in metric.values}


def bounded() -> dict[str, float]:
    """Name -> the least that tables show, of values with an upper bound.

    They show that bound as 100.
    """
    values = [value for metric in all_metrics() for value in metric.values]
    return {v.name: v.percent(v.least) for v in values if not math.isinf(v.most)}


def measure(
    kind: str, items: Sequence[Item], labels: Sequence[str]
) -> dict[str, float]:
    """All metrics of a kind of predictions, see `Metric.measure`; {} of no items.

    Those that are no finite numbers are left out.
    """
    found: dict[str, float] = {}
    for metric in metrics_of(kind) if items else ():
        found |= metric.measure(items, labels)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def notes(kind: str, items: Sequence[Item]) -> dict[str, str]:
    """Name -> `Metric.note`, of the values of a kind of predictions that have one.

    Args:
      items: those with gold; they may be none.
    """
    of_kind = metrics_of(kind) if items else []
    found = ((metric, metric.note(items)) for metric in of_kind)
    return {
        value.name: note for metric, note in found if note for value in metric.values
    }


def notes_lines(found: Mapping[str, str]) -> list[str]:
    """Notes by name, such as "valid/bleu", in lines for the user."""
    groups: dict[str, dict[str, None]] = {}
    for name, note in found.items():
        groups.setdefault(note, {})[name.rpartition("/")[2]] = None
    return [f"{', '.join(names)}: {note}" for note, names in groups.items()]


def with_golds(labels: Sequence[str], golds: Iterable[str]) -> list[str]:
    """The labels of the training text, and the others that are right somewhere."""
    return [*labels, *sorted({*golds}.difference(labels))]


def columns(items: Sequence[Item]) -> tuple[list[Any], list[Any]]:
    """The predictions, and the golds."""
    return [item.prediction for item in items], [item.gold for item in items]
