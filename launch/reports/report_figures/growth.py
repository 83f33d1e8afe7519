"""Figures of a column over a number in the rows' names, such as 5 in "lm, 5 M"."""

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator

from launch.reports import report_figures
from launch.reports.cells import Grid
from launch.reports.figures import ROW_COLORS, STYLE, pyplot, svg_element
from launch.reports.report_figures import Drawn
from launch.reports.tables import Rows, Table

POINT = re.compile(r"(?P<line>.+), (?P<place>[0-9.]+) (?P<unit>\S+)")
"""The name of a row that is a point of a line; other rows are horizontal lines."""

LEVELS = "--", ":", "-."


@dataclasses.dataclass(frozen=True)
class Figures(report_figures.Figures):
    """One figure for each column that the table names."""

    of_columns = True

    def drawn(self, table: Table, grid: Grid, rows: Rows) -> Iterator[Drawn]:
        over = table.row_header.rpartition(", ")[2]
        for number, name in enumerate(table.figures.get("growth", ()), 1):
            if has_points(grid, name):
                image = draw_growth(table, grid, name)
                caption = f"{name} over {over}; ± over seeds"
                yield Drawn(f"growth-{number}.svg", caption, image)


def has_points(grid: Grid, name: str) -> bool:
    """Whether two rows of one line have numbers in this column."""
    matches = filter(None, map(POINT.fullmatch, _shown(grid, name)))
    lines = [match["line"] for match in matches]
    return len(lines) > len(set(lines))


def draw_growth(table: Table, grid: Grid, name: str) -> str:
    """An SVG element: means with their intervals; other rows are dashed lines."""
    column = next(column for column in table.columns if column.name == name)
    rows = {row: POINT.fullmatch(row) for row in _shown(grid, name)}
    lines = [*dict.fromkeys(match["line"] for match in rows.values() if match)]
    units = [match["unit"] for match in rows.values() if match]
    with pyplot.rc_context(STYLE):
        drawn, panel = pyplot.subplots(figsize=(5.6, 3.4))
        for number, line in enumerate(lines):
            points = [
                (float(match["place"]), *grid[row][name].estimate[:2])
                for row, match in rows.items()
                if match and match["line"] == line
            ]
            x, means, margins = zip(*sorted(points), strict=True)
            margins = [0 if math.isnan(margin) else margin for margin in margins]
            color = ROW_COLORS[number % len(ROW_COLORS)]
            shown = {"fmt": "o-", "ms": 3.5, "lw": 1.4, "capsize": 2, "color": color}
            panel.errorbar(x, means, yerr=margins, label=line, **shown)
        for number, (row, match) in enumerate(rows.items()):
            if not match:
                mean = grid[row][name].estimate[0]
                shown = {"color": ROW_COLORS[5], "lw": 1, "ls": LEVELS[number % 3]}
                panel.axhline(mean, label=row, **shown)
        panel.set_xscale("log")
        places = sorted({float(match["place"]) for match in rows.values() if match})
        panel.set_xticks(places, [f"{place:g}" for place in places])
        panel.set_xticks([], minor=True)
        panel.set_xlabel(f"{table.row_header.rpartition(', ')[2]}, {units[0]}")
        panel.set_ylabel(column.header)
        panel.grid(axis="y")
        panel.legend(frameon=False, fontsize=7)
        return svg_element(drawn)


def _shown(grid: Grid, name: str) -> Iterable[str]:
    return [row for row, cells in grid.items() if cells[name] and cells[name].numbers]
