"""Figures of a report: those in addition to curves and bars.

A module here defines a frozen dataclass `Figures(report_figures.Figures)` without
fields. It is found by listing the folder, and draws figures from the table, its numbers
and its trials.
"""

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from launch.reports.cells import Grid
from launch.reports.tables import Rows, Table
from research.contract.parts import Folder

FOLDER = Folder("launch.reports.report_figures", "Figures")


class Drawn(NamedTuple):
    """A figure of a report."""

    file: str  # its name
    caption: str
    svg: str  # an SVG element; the same numbers give the same bytes


class Figures:
    """The base of all modules' figures."""

    of_columns: ClassVar[bool] = False
    """Whether a table's file names the columns that they draw, in a key with the name
    of the module. `Table.figures` has these columns."""

    def drawn(self, table: Table, grid: Grid, rows: Rows) -> Iterator[Drawn]:
        """The figures for this table; none if it lacks what they show.

        Args:
          grid: the numbers of the table's cells.
          rows: the trials that have a result.
        """
        raise NotImplementedError


def all_drawn(table: Table, grid: Grid, rows: Rows) -> Iterator[Drawn]:
    """The figures of all modules of this folder."""
    for name in FOLDER.names():
        yield from FOLDER.part_class(name, "figures")().drawn(table, grid, rows)
