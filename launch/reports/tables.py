"""A table of a sweep: the trials of each cell, beside the numbers of a paper."""

import itertools
import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from launch import user_code
from launch.sweeps.trial import Trial
from research.errors import UserError, unknown
from research.evaluation.statistics import Estimate, estimate, paired_test

Rows = Mapping[str, Mapping[str, Sequence[Trial]]]
"""Row -> group -> its trials; the columns of a missing group show a dash."""


class Column(NamedTuple):
    """One number of each trial of a group, averaged over the group."""

    name: str
    group: str
    value: str | Callable[[Trial], float | None]  # path in result.json, or a function
    digits: int = 2  # after the decimal point
    tested: bool = False  # paired t-test by seed against the baseline row


class Paper(NamedTuple):
    """The number that a paper reports for a cell."""

    number: float
    source: str


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


class Cell(NamedTuple):
    """The number of a cell, with its test and the paper's number."""

    values: tuple[float, ...]  # one for each seed
    estimate: Estimate
    p: float | None = None  # of the paired test against the baseline
    paper: Paper | None = None


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
    grid: Grid = {row: {} for row in rows}
    for column in table.columns:
        values = {row: _values(column, groups) for row, groups in rows.items()}
        for row in rows:
            grid[row][column.name] = _cell(table, column, row, values)
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


def _values(column: Column, groups: Mapping[str, Sequence[Trial]]) -> dict[int, float]:
    """Seed -> value, of the trials that have a value."""
    values = {}
    for trial in groups.get(column.group, ()):
        number = metric_value(column.value, trial)
        if number is None:
            continue
        if not isinstance(number, numbers.Real):
            raise UserError(
                f"--table: column {column.name!r} of {trial.name} is a number, not "
                f"{number!r}"
            )
        seed = trial.config["seed"]
        if seed in values:
            raise UserError(
                f"--table: two trials of one cell share seed {seed}: {trial.name}"
            )
        values[seed] = float(number)
    return values


def metric_value(value: str | Callable[[Trial], float | None], trial: Trial) -> Any:
    """A trial's number.

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
        if isinstance(value, numbers.Real):
            yield prefix + name
        elif name == "metrics":
            yield from _numbers(value, "metrics.")


def _cell(
    table: Table, column: Column, row: str, values: Mapping[str, dict[int, float]]
) -> Cell | None:
    own, baseline = values[row], values.get(table.baseline, {})
    if not own:
        return None
    p = None
    if column.tested and table.baseline and row != table.baseline:
        seeds = sorted(own.keys() & baseline.keys())
        p = paired_test([own[s] for s in seeds], [baseline[s] for s in seeds])
    paper = table.papers.get((row, column.name))
    return Cell(tuple(own.values()), estimate(tuple(own.values())), p, paper)
