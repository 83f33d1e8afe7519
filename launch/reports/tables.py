"""A table of a sweep: the trials of each cell, and the numbers of a paper."""

import difflib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

from launch.sweeps import benchmarks
from launch.sweeps.tasks import Task
from launch.sweeps.trial import Trial
from research.contract.errors import UserError, unknown
from research.metrics import HIGHER, LOWER

Rows = Mapping[str, Mapping[str, Sequence[Trial]]]
"""Row -> group -> its trials; the columns of a missing group show a dash."""


Value = str | Callable[[Trial], Any]
"""A path in result.json, or a function of the trial: a number, or the scores of single
items [I], whose mean is the number; None where the column does not apply."""


class Scoring(NamedTuple):
    """How `palimpsest score` made the scores of a run."""

    method: str
    files: str  # hash of the texts' files
    pairs: str = ""  # hash of which pairs count; "": all do


class Column(NamedTuple):
    """One number of each trial of a group, averaged over the group.

    If a group has several settings per seed, such as learning rates, each pretraining
    seed takes its setting with the best mean of `picked_by`.
    """

    name: str
    group: str
    value: Value
    digits: int = 2  # after the decimal point
    tested: bool = False  # compared with the baseline row, by pretraining seed
    picked_by: Value = ""  # "": no pretraining seed has several settings
    mean_of: tuple[str, ...] = ()  # columns whose mean it is; then it has no group
    stand_in: str = ""  # our data set instead of the paper's; "": the paper's own
    margin: Value = ""  # of the interval over items of a single run's number
    ready: Callable[[Trial], bool] = lambda trial: True  # whether a run has what
    # `value` reads; if not, the table's note says what has to be done
    better: str = HIGHER  # or LOWER: for `value` and `picked_by`
    least: float = -math.inf  # the smallest possible value: no axis goes below
    most: float = math.inf  # the largest possible value: no axis goes above
    scoring: Callable[[Trial], Scoring | None] = lambda trial: None  # of scores by
    # `palimpsest score`: a column has one set of files and pairs, a row one method
    scored_as: str = ""  # the task of `palimpsest score` that fills it; "": none does

    @property
    def sign(self) -> int:
        """1 where higher is better, -1 where lower is."""
        return {HIGHER: 1, LOWER: -1}[self.better]

    @property
    def header(self) -> str:
        """The name, with the data set that replaces the paper's, if one does."""
        return f"{self.name} (here: {self.stand_in})" if self.stand_in else self.name


class Paper(NamedTuple):
    """The number that a paper reports for a cell."""

    number: float
    source: str
    mark: str = ""  # how well the number is verified, see `ledger.MARKS`


class Curve(NamedTuple):
    """A figure with one panel for each row: metrics of a group over their costs."""

    caption: str
    group: str
    metrics: tuple[str, ...]  # names of metrics.jsonl; the last has the thickest line
    over: str = "tokens"  # or flops, or time, which is that of the steps alone


class OptimumFigure(NamedTuple):
    """A figure of a value over a number that trials vary, with each line's minimum.

    The trials of a line share another number, such as a width or a budget.
    """

    caption: str
    group: str
    place: Callable[[Trial], float]  # above 0: a rate, or a number of parameters
    value: Callable[[Trial], float | None]  # such as a loss; None: it has none
    line: Callable[[Trial], float]  # above 0
    place_label: str  # of the axis
    line_label: str  # in the legend, before the line's number
    value_label: str
    panel: Callable[[Trial], str] = lambda trial: ""  # its title


class Claimed(NamedTuple):
    """A comparison that a paper makes: one row is better than another in a column."""

    better: str
    worse: str
    column: str
    difference: float  # better - worse, in the paper


class Table(NamedTuple):
    """What a table shows of a sweep: its rows, columns and comparisons."""

    title: str
    row_header: str  # header of the first column
    note: str  # what is compared, and what is equal
    rows: Callable[[list[Trial]], Rows]
    columns: tuple[Column, ...]
    baseline: str = ""  # name of a row
    baselines: Mapping[str, str] = {}  # row -> its own baseline; "": it has none
    papers: Mapping[tuple[str, str], Paper] = {}  # (row, column) -> the paper's number
    claims: tuple[Claimed, ...] = ()
    curves: tuple[Curve, ...] = ()  # figures of the report
    optima: tuple[OptimumFigure, ...] = ()  # figures of the report, too
    bars: tuple[str, ...] = ()  # columns that the report also draws as bars
    figures: Mapping[str, tuple[str, ...]] = {}  # module of report_figures -> columns

    def baseline_of(self, row: str) -> str:
        """The row with which a row is compared; "": none."""
        found = self.baselines.get(row, self.baseline)
        return "" if found == row else found

    @property
    def all_baselines(self) -> tuple[str, ...]:
        """The baselines of all rows, each once."""
        found = (self.baseline, *self.baselines.values())
        return tuple(dict.fromkeys(filter(None, found)))

    @property
    def baseline_text(self) -> str:
        """The name of the baseline, or of each row's own one; "": no baseline."""
        several = len(self.all_baselines) > 1
        return "the row's own baseline" if several else "".join(self.all_baselines)


def table_rows(table: Table, trials: list[Trial]) -> Rows:
    """The rows that the table's function returns for these trials.

    Raises:
      UserError: it does not return rows of groups of trials.
    """
    rows = table.rows(trials)
    pairs = rows.items() if isinstance(rows, Mapping) else [(None, None)]
    for name, groups in pairs:
        if not (isinstance(name, str) and isinstance(groups, Mapping)):
            raise UserError(
                f"--table: rows() must return row -> group -> trials, not {rows!r}"
            )
    return rows


def trials_of(rows: Rows, group: str) -> list[Trial]:
    """The trials of a group in all rows."""
    return [trial for row in rows.values() for trial in row.get(group, ())]


def labelled_rows(trials: list[Trial]) -> Rows:
    """The rows and groups that the sweep names."""
    rows: dict[str, dict[str, list[Trial]]] = {}
    for trial in trials:
        if trial.row:
            rows.setdefault(trial.row, {}).setdefault(trial.group, []).append(trial)
    return rows


def for_sweep(table: Table, trials: list[Trial], tasks: Mapping[str, Task]) -> Table:
    """The table with only the columns for which the sweep has trials.

    Args:
      tasks: the tasks with which the sweep was started.

    Raises:
      UserError: a column's group is nearly the name of a group that no column shows.
    """
    groups = {group for row in table_rows(table, trials).values() for group in row}
    _check_groups(table, groups)
    kept: dict[str, Column] = {}
    for column in table.columns:
        parts = tuple(name for name in column.mean_of if name in kept)
        if parts:
            stand_in = column.stand_in
            if parts != column.mean_of or any(kept[name].stand_in for name in parts):
                stand_in = f"mean of {', '.join(_described(kept[n]) for n in parts)}"
            kept[column.name] = column._replace(mean_of=parts, stand_in=stand_in)
        elif column.group in groups:
            task = tasks.get(column.group, Task("", {}))
            kept[column.name] = column._replace(stand_in=task.stand_in)
    names = [column.name for column in table.columns]
    left_out = [name for name in names if name not in {*kept, *benchmarks.PROBES}]
    note = table.note
    if left_out:
        note += f" Not run here: {', '.join(left_out)}."
    columns = tuple(kept.values())
    bars = tuple(filter(kept.get, table.bars))
    drawn = {name: tuple(filter(kept.get, of)) for name, of in table.figures.items()}
    return table._replace(columns=columns, note=note, bars=bars, figures=drawn)


def _check_groups(table: Table, groups: set[str]) -> None:
    named = {column.group for column in table.columns}
    for column in table.columns:
        is_absent = bool(column.group) and column.group not in groups
        if is_absent and difflib.get_close_matches(column.group, groups - named):
            raise unknown(f"group of column {column.name!r}", column.group, groups)


def _described(column: Column) -> str:
    return f"{column.stand_in} for {column.name}" if column.stand_in else column.name


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
            known = _numbers(trial.result)
            raise unknown(f"metric of result.json of trial {trial.name}", value, known)
        entry = entry[name]
    return entry


def _numbers(content: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The paths of all numbers in a result, in `metrics` and outside of it."""
    for name, value in content.items():
        if isinstance(value, Real):
            yield prefix + name
        elif name == "metrics":
            yield from _numbers(value, "metrics.")
