"""A filled table as a paper prints it: short LaTeX."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from launch.reports.cell_text import DASH, format_number, shows_both
from launch.reports.cells import Cell, Grid
from launch.reports.formats import escape_tex, tex_table
from launch.reports.notes import CONFIDENCE, notes
from launch.reports.tables import Column, Table
from research.contract.errors import unknown
from research.evaluation.comparison import LEVEL

SPREADS = ("ci", "sd", "none")
"""The margin after ±: half the 95 % interval, or the standard deviation over seeds."""

VERDICTS = ("stars", "none")
LEVELS = (LEVEL, 0.01, 0.001)
"""The corrected p is below these: one star, two, three."""


class Style(NamedTuple):
    """How a table is shown.

    Attributes:
      columns: their names, in order; (): all.
      spread: one of SPREADS.
      verdicts: one of VERDICTS.
      caption: "": the table's title, and the meanings of signs.
      label: of LaTeX; "": none.
    """

    columns: tuple[str, ...] = ()
    spread: str = "ci"
    verdicts: str = "stars"
    caption: str = ""
    label: str = ""

    def check(self, table: Table) -> None:
        """Raises UserError: there is no such column, spread or verdict."""
        for flag, value, known in (
            ("--spread", self.spread, SPREADS),
            ("--verdicts", self.verdicts, VERDICTS),
            *(("--columns", name, _names(table)) for name in self.columns),
        ):
            if value not in known:
                raise unknown(flag, value, known)


def named_columns(text: str, table: Table) -> tuple[str, ...]:
    """The columns of --columns, separated by commas; some names contain commas.

    If several names fit, the longest is taken; an unknown name ends at a comma.
    """
    found, rest = [], text.strip(", ")
    while rest:
        fitting = [n for n in _names(table) if f"{rest},".startswith(f"{n},")]
        name = max(fitting, key=len) if fitting else rest.partition(",")[0]
        found.append(name)
        rest = rest.removeprefix(name).lstrip(", ")
    return tuple(found)


def _names(table: Table) -> list[str]:
    return [column.name for column in table.columns]


def latex(table: Table, grid: Grid, style: Style) -> str:
    """The table for booktabs: means, the best of each tested column in bold.

    All notes of the table stand above it as comments.
    """
    style.check(table)
    by_name = {column.name: column for column in table.columns}
    columns = [by_name[name] for name in style.columns or by_name]
    header = [table.row_header, *(column.header for column in columns)]
    best = {column.name: _best(column, grid) for column in columns}
    rows = []
    for row, cells in grid.items():
        line = [escape_tex(row)]
        for column in columns:
            text = _cell(cells[column.name], column, style)
            is_best = row in best[column.name]
            line.append(rf"\textbf{{{text}}}" if is_best else text)
        rows.append(line)
    caption = style.caption or f"{table.title}. {_signs(columns, table, grid, style)}"
    comments = [f"% {' '.join(note.split())}" for note in notes(table, grid)]
    body = tex_table([[*map(escape_tex, header)], *rows], caption, style.label)
    return "\n".join([*comments, body])


def _best(column: Column, grid: Grid) -> set[str]:
    """The rows whose mean, as shown, is the best in a tested column."""
    if not column.tested:
        return set()
    shown = {
        row: round(cell.estimate.mean, column.digits) * column.sign
        for row, cells in grid.items()
        if (cell := cells[column.name]) and cell.numbers
    }
    return {row for row, value in shown.items() if value == max(shown.values())}


def _cell(cell: Cell | None, column: Column, style: Style) -> str:
    if cell is None or not cell.numbers:
        return escape_tex(DASH)
    values = (cell.estimate.mean,)
    if style.spread == "ci" and shows_both(cell):
        values = cell.draws
    text = escape_tex(", ".join(format_number(x, column.digits) for x in values))
    margin = _spread(cell, style.spread)
    if math.isfinite(margin):
        text += rf" $\pm$ {format_number(margin, column.digits)}"
    if style.verdicts == "stars" and cell.comparison:
        p = cell.comparison.adjusted_p
        stars = sum(p < level for level in LEVELS)
        text += f"$^{{{'*' * stars}}}$" if stars else ""
    return text


def _spread(cell: Cell, spread: str) -> float:
    """The margin after ±; nan: none."""
    if spread == "ci":
        return math.nan if shows_both(cell) else cell.estimate.margin
    if spread == "sd" and len(cell.draws) > 1:
        return float(np.std(cell.draws, ddof=1))
    return math.nan


def _has_spread(cell: Cell, spread: str) -> bool:
    return len(cell.draws) > 1 and math.isfinite(_spread(cell, spread))


def _signs(columns: Sequence[Column], table: Table, grid: Grid, style: Style) -> str:
    """The meanings of the table's signs, in a line."""
    cells = [row[column.name] for row in grid.values() for column in columns]
    known = [cell for cell in cells if cell and cell.numbers]
    counts = {len(cell.draws) for cell in known if _has_spread(cell, style.spread)}
    texts = []
    if counts and style.spread != "none":
        what = {"ci": f"{CONFIDENCE} interval", "sd": "standard deviation"}
        seeds = " or ".join(map(str, sorted(counts)))
        texts.append(f"±: {what[style.spread]} over {seeds} seeds")
    if any(column.tested for column in columns):
        texts.append("bold: best")
    found = [cell.comparison for cell in known if cell.comparison]
    if style.verdicts == "stars" and any(each.adjusted_p < LEVEL for each in found):
        levels = ", ".join(f"{'*' * n} {p:g}" for n, p in enumerate(LEVELS, 1))
        texts.append(f"{levels}: p below, against {table.baseline_text} (Holm)")
    return f"{'; '.join(texts)}." if texts else ""
