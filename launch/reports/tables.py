"""A paper's table: which trials fill which cell, beside the paper's own numbers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from launch import config
from launch.sweeps.trials import Trial
from research.errors import UserError, unknown
from research.evaluation.statistics import Estimate, estimate, paired_test

Rows = Mapping[str, Mapping[str, Sequence[Trial]]]
"""Row -> group -> the trials that fill it; a group that is left out shows a dash."""


class Column(NamedTuple):
    """One number of a trial, over the trials of a group."""

    name: str
    group: str
    value: str | Callable[[Trial], float | None]  # of result.json, "metrics.valid/loss"
    digits: int = 2  # after the point
    tested: bool = False  # against the baseline row, paired by seed


class Paper(NamedTuple):
    """What a paper says of a cell."""

    number: float
    source: str


class Curve(NamedTuple):
    """A metric of a group's trials over the tokens they have seen, a panel a row."""

    caption: str
    group: str
    metrics: tuple[str, ...]  # names of metrics.jsonl; the last is drawn boldest


class Table(NamedTuple):
    title: str
    head: str  # of the first column: what a row is
    note: str  # what is compared, at equal what
    rows: Callable[[list[Trial]], Rows]
    columns: tuple[Column, ...]
    baseline: str = ""  # a row
    papers: Mapping[tuple[str, str], Paper] = {}  # (row, column) -> the paper's number
    curves: tuple[Curve, ...] = ()  # of the report
    bars: tuple[str, ...] = ()  # columns that the report draws with their intervals


class Cell(NamedTuple):
    """A number as it is shown."""

    values: tuple[float, ...]  # a seed each
    estimate: Estimate
    p: float | None = None  # of no difference to the baseline
    paper: Paper | None = None


Grid = dict[str, dict[str, Cell | None]]
"""Row -> column -> cell; None where a column does not apply."""


def load(file: str) -> Table:
    """The table of a file.

    Raises:
      UserError: no such file, or one that defines no table.
    """
    table = getattr(config.module_at(file), "TABLE", None)
    if table is None:
        raise UserError(f"{file} is no table: it defines no TABLE")
    return table


def cells(table: Table, found: list[Trial]) -> Grid:
    """Fills a table.

    Raises:
      UserError: runs are missing, or a row has no trials where it should.
    """
    rows = table.rows(found)
    _refuse_missing(rows)
    if table.baseline and table.baseline not in rows:
        raise unknown("baseline row", table.baseline, rows)
    grid: Grid = {row: {} for row in rows}
    for column in table.columns:
        values = {row: _values(column, groups) for row, groups in rows.items()}
        for row in rows:
            grid[row][column.name] = _cell(table, column, row, values)
    return grid


def _refuse_missing(rows: Rows) -> None:
    lost = {}
    for row, groups in rows.items():
        for name, group in groups.items():
            if not group:
                raise UserError(f"no trial of the sweep fills row {row}, {name}")
            lost |= {trial.id: trial.name for trial in group if not trial.done}
    if lost:
        names = ", ".join(f"{name} ({identity})" for identity, name in lost.items())
        runs = "1 run is" if len(lost) == 1 else f"{len(lost)} runs are"
        raise UserError(f"{runs} missing: {names}; run launch.sweep first")


def _values(column: Column, groups: Mapping[str, Sequence[Trial]]) -> dict[int, float]:
    """Seed -> value of the trials that have one."""
    values = {}
    for trial in groups.get(column.group, ()):
        number = number_of(column.value, trial)
        if number is None:
            continue
        seed = trial.config["seed"]
        if seed in values:
            raise UserError(f"{trial.name}: two trials of one cell share seed {seed}")
        values[seed] = float(number)
    return values


def number_of(value: str | Callable[[Trial], float | None], trial: Trial) -> Any:
    """A trial's number: a function of it, or a path such as "metrics.valid/loss"."""
    if callable(value):
        return value(trial)
    found = trial.result
    for name in value.split("."):
        if name not in found:
            raise unknown(f"number of {trial.name}", name, found)
        found = found[name]
    return found


def _cell(
    table: Table, column: Column, row: str, values: Mapping[str, dict[int, float]]
) -> Cell | None:
    own, base = values[row], values.get(table.baseline, {})
    if not own:
        return None
    p = None
    if column.tested and table.baseline and row != table.baseline:
        seeds = sorted(own.keys() & base.keys())
        p = paired_test([own[seed] for seed in seeds], [base[seed] for seed in seeds])
    paper = table.papers.get((row, column.name))
    return Cell(tuple(own.values()), estimate(tuple(own.values())), p, paper)
