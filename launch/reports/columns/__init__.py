"""Columns of tables: the costs and scores of a pretraining, by name.

A module here defines a frozen dataclass `Columns(columns.Columns)` without fields: one
or several `Column` of one topic. It is found by listing the folder; the files of
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
"""The group with the pretrainings of a sweep."""


class Columns:
    """The base of all modules' columns."""

    columns: ClassVar[tuple[Column, ...]]

    always: ClassVar[bool] = False
    """Whether every TOML table has them, as its first columns."""


@functools.cache
def all_columns() -> tuple[Columns, ...]:
    """The columns of all modules of this folder."""
    return tuple(FOLDER.part_class(name, "columns")() for name in FOLDER.names())


def by_name(*, always: bool) -> dict[str, Column]:
    """Name -> column: those that every table has, or those that tables name."""
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
