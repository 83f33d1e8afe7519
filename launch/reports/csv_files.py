"""A filled table as CSV, for other programs: its cells, or all single numbers."""

import csv
import io
import math
from collections.abc import Iterable, Iterator
from typing import Any

from launch.reports.cells import Grid
from launch.reports.tables import Paper, Table

CSV_HEADER = ("row", "column", "mean", "margin", "count", "one_seed")
CSV_HEADER += ("difference", "difference_margin", "shared_seeds", "p", "adjusted_p")
CSV_HEADER += ("verdict", "seeds_needed", "paper", "mark", "source", "stand_in")
CSV_HEADER += ("missing_runs", "diverged_runs")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Spreadsheets read a cell as a formula if it begins so (OWASP, CSV injection)."""
NUMBERS_HEADER = ("row", "column", "trial", "pretraining_seed", "seed", "items")
ORIGINS = ("commit", "data", "test_data", "device")
NUMBERS_HEADER += ("value", *ORIGINS)


def comma_separated(table: Table, grid: Grid) -> str:
    """One line for each cell, at full precision, for other programs."""
    return lines_as_csv([CSV_HEADER, *_cell_lines(table, grid)])


def numbers(table: Table, grid: Grid) -> str:
    """One line for each number of each trial, from which the table can be made anew."""
    return lines_as_csv([NUMBERS_HEADER, *_number_lines(grid)])


def lines_as_csv(lines: Iterable[Iterable[Any]]) -> str:
    """Lines as CSV; an unknown value (None or nan) is empty.

    A text that a spreadsheet would read as a formula begins with an apostrophe.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for line in lines:
        writer.writerow(map(_cell, line))
    return out.getvalue()


def _cell(item: Any) -> Any:
    if item is None or item != item:
        return ""
    return f"'{item}" if isinstance(item, str) and item.startswith(FORMULA) else item


def _cell_lines(table: Table, grid: Grid) -> Iterator[list[Any]]:
    stand_ins = {column.name: column.stand_in for column in table.columns}
    for row, cells in grid.items():
        for column, cell in cells.items():
            if cell is None:
                continue
            compared = [None] * 7
            if found := cell.comparison:
                compared = [*found.difference, found.p, found.adjusted_p]
                compared += [found.verdict(cell.direction), found.seeds_needed]
            paper = cell.paper or Paper(math.nan, "")
            origin = paper.number, paper.mark, paper.source
            mean, margin, count = cell.estimate
            numbers = [mean, margin, count, cell.one_seed if cell.numbers else None]
            line = [row, column, *numbers, *compared, *origin]
            counts = len(cell.missing), len(cell.diverged)
            yield [*line, stand_ins[column], *counts]


def _number_lines(grid: Grid) -> Iterator[list[Any]]:
    for row, cells in grid.items():
        for column, cell in cells.items():
            for number in cell.numbers if cell else ():
                trial = number.trial
                origins = (_joined(number.origins(name)) for name in ORIGINS)
                ids = _joined(each.id for each in number.trials)
                seeds = trial.pretraining_seed, trial.config["seed"]
                items = number.scores.size if number.scores.ndim else None
                yield [row, column, ids, *seeds, items, number.value, *origins]


def _joined(values: Iterable[Any]) -> str:
    """The distinct values, separated by spaces; a mean of columns has several."""
    return " ".join(dict.fromkeys("" if value is None else value for value in values))
