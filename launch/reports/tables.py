"""A table of a sweep: the trials of each cell, beside the numbers of a paper."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from launch import user_code
from launch.sweeps.trial import Trial
from research.errors import UserError, unknown
from research.evaluation.comparison import Comparison, compare
from research.evaluation.statistics import Estimate, estimate

Rows = Mapping[str, Mapping[str, Sequence[Trial]]]
"""Row -> group -> its trials; the columns of a missing group show a dash."""


Value = str | Callable[[Trial], Any]
"""A path in result.json, or a function of the trial: a number, or the scores of single
items [I], whose mean is the number; None where the column does not apply."""


class Column(NamedTuple):
    """One number of each trial of a group, averaged over the group."""

    name: str
    group: str
    value: Value
    digits: int = 2  # after the decimal point
    tested: bool = False  # compared with the baseline row, by pretraining seed


class Paper(NamedTuple):
    """The number that a paper reports for a cell."""

    number: float
    source: str
    mark: str = ""  # how far the number is verified


class Curve(NamedTuple):
    """A figure with one panel for each row: metrics of a group over tokens seen."""

    caption: str
    group: str
    metrics: tuple[str, ...]  # names of metrics.jsonl; the last has the thickest line


class Table(NamedTuple):
    title: str
    row_header: str  # header of the first column
    note: str  # what is compared, and what is equal
    rows: Callable[[list[Trial]], Rows]
    columns: tuple[Column, ...]
    baseline: str = ""  # name of a row
    papers: Mapping[tuple[str, str], Paper] = {}  # (row, column) -> the paper's number
    curves: tuple[Curve, ...] = ()  # figures of the report
    bars: tuple[str, ...] = ()  # columns that the report also draws as bars


class Number(NamedTuple):
    """What one trial brings to a cell."""

    trial: Trial
    scores: np.ndarray  # [], or [I] of single items

    @property
    def value(self) -> float:
        return float(self.scores.mean())

    @property
    def origin(self) -> dict[str, Any]:
        """The commit and the data's fingerprint of the run; None: not recorded."""
        recorded = self.trial.result["provenance"]
        return {name: recorded.get(name) for name in ("commit", "data")}


class Cell(NamedTuple):
    """The numbers of a cell, with their comparison and the paper's number."""

    numbers: tuple[Number, ...]
    estimate: Estimate  # over pretraining seeds; of a single one, over its trials
    comparison: Comparison | None = None  # with the baseline
    paper: Paper | None = None
    direction: float = (
        0.0  # the sign of the paper's difference to the baseline; 0: none
    )

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(number.value for number in self.numbers)

    @property
    def one_seed(self) -> bool:
        """Whether all trials start from one pretraining seed."""
        return len(by_seed(self.numbers)) == 1


Grid = dict[str, dict[str, Cell | None]]
"""Row -> column -> cell; None where a column does not apply."""


def load_table(file: str) -> Table:
    """The table that a file defines.

    Raises:
      UserError: there is no such file, or its TABLE is none.
    """
    table = getattr(user_code.module_at(file), "TABLE", None)
    if not isinstance(table, Table) or not callable(table.rows):
        raise UserError(f"{file} is not a table: it does not define TABLE, a `Table`")
    names = [column.name for column in table.columns if isinstance(column, Column)]
    if len(names) < max(1, len(table.columns)):
        raise UserError(f"{file}: TABLE.columns lists one `Column` or more")
    for name in table.bars:
        if name not in names:
            raise unknown(f"column of TABLE.bars in {file}", name, names)
    return table


def fill_table(table: Table, trials: list[Trial]) -> Grid:
    """The cells of a table.

    Raises:
      UserError: a trial has no result, or a group of a row has no trials.
    """
    rows = table_rows(table, trials)
    _check_complete(rows)
    if table.baseline and table.baseline not in rows:
        raise unknown("baseline row", table.baseline, rows)
    numbers = {
        (row, column.name): _cell_numbers(column, groups)
        for column in table.columns
        for row, groups in rows.items()
    }
    _check_items(numbers)
    comparisons = _comparisons(table, numbers)
    grid: Grid = {row: {} for row in rows}
    for (row, name), found in numbers.items():
        key, baseline = (row, name), (table.baseline, name)
        paper, other = table.papers.get(key), table.papers.get(baseline)
        direction = paper.number - other.number if paper and other else 0.0
        grid[row][name] = found and Cell(
            found, _estimate(found), comparisons.get(key), paper, float(direction)
        )
    return grid


def table_rows(table: Table, trials: list[Trial]) -> Rows:
    """What the table's function gives for these trials.

    Raises:
      UserError: it gives something else than rows of groups of trials.
    """
    rows = table.rows(trials)
    pairs = rows.items() if isinstance(rows, Mapping) else [(None, None)]
    for name, groups in pairs:
        if not (isinstance(name, str) and isinstance(groups, Mapping)):
            raise UserError(
                f"--table: rows() gives row -> group -> trials, not {rows!r}"
            )
    return rows


def _check_complete(rows: Rows) -> None:
    missing = {}
    for row, groups in rows.items():
        for name, group in groups.items():
            if not group:
                raise UserError(
                    f"--table: no trial of the sweep fills row {row}, {name}"
                )
            missing |= {trial.id: trial.name for trial in group if not trial.done}
    if missing:
        names = ", ".join(f"{name} ({key})" for key, name in missing.items())
        runs = "1 run is" if len(missing) == 1 else f"{len(missing)} runs are"
        raise UserError(
            f"{runs} missing: {names}; run launch.sweep with this --workdir first"
        )
    for groups in rows.values():
        for trial in itertools.chain(*groups.values()):
            trial.check_result()


def _cell_numbers(
    column: Column, groups: Mapping[str, Sequence[Trial]]
) -> tuple[Number, ...] | None:
    """Those of the trials that have one; None if there are none."""
    numbers, seen = [], set()
    for trial in groups.get(column.group, ()):
        value = metric_value(column.value, trial)
        if value is None:
            continue
        seeds = trial.pretraining_seed, trial.config["seed"]
        if seeds in seen:
            raise UserError(
                f"--table: two trials of one cell share seed {seeds[1]}: {trial.name}"
            )
        seen.add(seeds)
        try:
            scores = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            scores = np.empty((0, 0))
        if scores.ndim > 1 or not scores.size:
            raise UserError(
                f"--table: column {column.name!r} of {trial.name} is a number, or a "
                f"list of the scores of items, not {value!r}"
            )
        numbers.append(Number(trial, scores))
    return tuple(numbers) or None


def _check_items(numbers: Mapping[tuple[str, str], tuple[Number, ...] | None]) -> None:
    """Checks that the trials of a column have scores of equally many items."""
    first: dict[str, Number] = {}
    for (_, name), own in numbers.items():
        for number in own or ():
            expected = first.setdefault(name, number)
            if number.scores.shape != expected.scores.shape:
                raise UserError(
                    f"{name}: {number.trial.name} has {number.scores.size} items and "
                    f"{expected.trial.name} {expected.scores.size}; score the same ones"
                )


def by_seed(numbers: Sequence[Number]) -> dict[int, np.ndarray]:
    """Pretraining seed -> scores [] or [I], averaged over its fine-tunings."""
    scores: dict[int, list[np.ndarray]] = {}
    for number in numbers:
        scores.setdefault(number.trial.pretraining_seed, []).append(number.scores)
    return {seed: np.mean(each, axis=0) for seed, each in sorted(scores.items())}


def _estimate(numbers: Sequence[Number]) -> Estimate:
    scores = list(by_seed(numbers).values())
    if len(scores) > 1:
        return estimate(scores)
    return estimate([number.value for number in numbers])


def _comparisons(
    table: Table, numbers: Mapping[tuple[str, str], tuple[Number, ...] | None]
) -> dict[tuple[str, str], Comparison]:
    """Those of all tested cells with the baseline's, corrected as one family.

    They are paired by pretraining seed. Of fewer than two shared seeds there is only
    the difference of the means of all trials.
    """
    tested = {column.name for column in table.columns if column.tested}
    family = {}
    for (row, name), own in numbers.items():
        other = numbers.get((table.baseline, name))
        if name not in tested or row == table.baseline or not own or not other:
            continue
        scores, others = by_seed(own), by_seed(other)
        shared = scores.keys() & others.keys()
        if len(shared) > 1:
            pair = [[of[seed] for seed in sorted(shared)] for of in (scores, others)]
        else:
            pair = [[_estimate(numbers).mean] for numbers in (own, other)]
        family[row, name] = pair
    return compare(family)


def metric_value(value: Value, trial: Trial) -> Any:
    """A trial's number, or its scores [I].

    Args:
      value: a function of the trial, or a path in result.json ("metrics.valid/loss").

    Raises:
      UserError: result.json has no such path.
    """
    if callable(value):
        return value(trial)
    entry = trial.result
    for name in value.split("."):
        if not isinstance(entry, Mapping) or name not in entry:
            raise unknown(f"number of {trial.name}", value, _numbers(trial.result))
        entry = entry[name]
    return entry


def _numbers(content: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The paths of the numbers in a result, in `metrics` and beside it."""
    for name, value in content.items():
        if isinstance(value, Real):
            yield prefix + name
        elif name == "metrics":
            yield from _numbers(value, "metrics.")
