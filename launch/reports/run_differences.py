"""The differences of two runs: config, provenance, data, and the metrics of steps."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from etils import epath

from research.config.identity import flatten, no_run, read_run_config
from research.files.existence import exists
from research.files.json_files import read_json
from research.record.metric_writer import BEST_STEP, latest_metrics, read_metrics
from research.record.workdir import CHANGEABLE_KEYS

MAY_DIFFER = {
    **dict.fromkeys(CHANGEABLE_KEYS, "a restart may change it"),
    "started": "of each start",
    **dict.fromkeys(("devices", "processes"), "as the mesh may"),
}
"""Key of config or provenance that does not change the result -> the reason."""

ABSENT = "–"


class Run(NamedTuple):
    """The content of the files of a run's workdir."""

    name: str
    config: dict[str, Any]  # dotted key -> value; missing keys have defaults
    provenance: dict[str, Any]  # dotted key -> value
    lines: list[dict[str, Any]]  # the lines of metrics.jsonl

    @property
    def last_step(self) -> int:
        return max((line["step"] for line in self.lines), default=0)

    def values_by_step(self) -> dict[int, dict[str, float]]:
        """Step -> metric -> value.

        With train.best_metric the last line is left out: it evaluates the parameters of
        another step.
        """
        found: dict[int, dict[str, float]] = {}
        for line in self.lines:
            if BEST_STEP not in line:
                own = {name: value for name, value in line.items() if name != "step"}
                found.setdefault(line["step"], {}).update(own)
        return found

    def curve(self, name: str) -> dict[int, float]:
        """Step -> value of a metric, for the steps that have it."""
        points = sorted(self.values_by_step().items())
        return {step: own[name] for step, own in points if name in own}


class Difference(NamedTuple):
    """A key whose values differ; ABSENT: a run lacks it."""

    key: str
    values: tuple[Any, Any]


class MetricDifference(NamedTuple):
    """A metric whose values differ at a step, or at the end."""

    name: str
    values: tuple[float, float]

    @property
    def gap(self) -> float:
        """The second value minus the first."""
        return self.values[1] - self.values[0]


class Differences(NamedTuple):
    """The differences of two runs."""

    config: list[Difference]
    provenance: list[Difference]
    num_shared: int  # number of steps that both logged
    first_step: int | None  # the first of these whose metrics differ; None: none
    first: list[MetricDifference]  # the differences at that step
    last: list[MetricDifference]  # the differences of the latest values
    alone: tuple[list[str], list[str]]  # metrics that only one run has
    last_steps: tuple[int, int]

    @property
    def matter(self) -> bool:
        """Whether something that changes the result differs."""
        keys = [each.key for each in (*self.config, *self.provenance)]
        numbers = self.first or self.last or any(self.alone)
        lengths_differ = self.last_steps[0] != self.last_steps[1]
        return bool(set(keys) - MAY_DIFFER.keys() or numbers or lengths_differ)


def read_run(path: str) -> Run:
    """Reads a run's workdir.

    Raises:
      UserError: it is not a run, or a file in it is damaged.
    """
    workdir = epath.Path(path)
    if not exists(workdir / "config.json"):
        raise no_run(path, "RUN=")
    origin = {}
    if exists(workdir / "provenance.json"):
        origin = read_json(workdir / "provenance.json", "delete it")
    config = flatten(read_run_config(workdir))
    origin.pop("command", None)  # its keys are in the config
    return Run(path, config, flatten(origin), read_metrics(workdir))


def compare_runs(one: Run, two: Run) -> Differences:
    """The differences of two runs at the steps that both have."""
    steps, others = one.values_by_step(), two.values_by_step()
    shared = sorted(steps.keys() & others.keys())
    each = {step: _metric_differences(steps[step], others[step]) for step in shared}
    first = next((step for step in shared if each[step]), None)
    latest, other = latest_metrics(one.lines), latest_metrics(two.lines)
    return Differences(
        config=_differences(one.config, two.config),
        provenance=_provenance_differences(one.provenance, two.provenance),
        num_shared=len(shared),
        first_step=first,
        first=each.get(first, []),
        last=_metric_differences(latest, other),
        alone=(
            [n for n in latest if n not in other],
            [n for n in other if n not in latest],
        ),
        last_steps=(one.last_step, two.last_step),
    )


def _differences(one: Mapping, two: Mapping) -> list[Difference]:
    pairs = {key: (one.get(key, ABSENT), two.get(key, ABSENT)) for key in one | two}
    return [Difference(key, pair) for key, pair in pairs.items() if pair[0] != pair[1]]


def _provenance_differences(one: Mapping, two: Mapping) -> list[Difference]:
    """The differences of keys that both runs have: versions record different keys."""
    both = one.keys() & two.keys()
    return [each for each in _differences(one, two) if each.key in both]


def _metric_differences(one: Mapping, two: Mapping) -> list[MetricDifference]:
    pairs = ((name, (one[name], two[name])) for name in one if name in two)
    return [MetricDifference(*pair) for pair in pairs if not _are_equal(*pair[1])]


def _are_equal(one: float, two: float) -> bool:
    return one == two or (math.isnan(one) and math.isnan(two))


def shared_losses(runs: Sequence[Run]) -> list[str]:
    """The losses that both runs have at two steps or more."""
    names = [n for own in runs[0].values_by_step().values() for n in own]
    losses = [name for name in dict.fromkeys(names) if name.endswith("/loss")]
    return [n for n in losses if min(len(run.curve(n)) for run in runs) > 1]
