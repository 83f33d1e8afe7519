"""Columns of tables: by name, of what a pretraining cost and how it scores.

A module here defines a frozen dataclass `Columns(columns.Columns)` without fields: one
`Column` or several of one topic. It is found by listing the folder; the files of
experiments/tables then name its columns.
"""

import functools
from typing import ClassVar

from launch.reports.tables import Column
from research.contract.errors import unknown
from research.contract.parts import Folder

FOLDER = Folder(
    "launch.reports.columns",
    "Columns",
    named_by="columns",
)

PRETRAINING = "pretraining"
"""The group of a sweep's pretrainings."""


class Columns:
    """The base of all modules' columns."""

    columns: ClassVar[tuple[Column, ...]]

    always: ClassVar[bool] = False
    """Whether each TOML table has them, before all others."""


@functools.cache
def all_columns() -> tuple[Columns, ...]:
    """The columns of all modules of this folder."""
    return tuple(FOLDER.part_class(name, "columns")() for name in FOLDER.names())


def by_name(*, always: bool) -> dict[str, Column]:
    """Name -> column, of those that each table has, or of those that tables name."""
    parts = (part for part in all_columns() if part.always == always)
    return {column.name: column for part in parts for column in part.columns}


def named(name: str) -> Column:
    """The column of this name.

    Raises:
      UserError: there is none.
    """
    known = by_name(always=True) | by_name(always=False)
    if name not in known:
        raise unknown("column", name, known)
    return known[name]
