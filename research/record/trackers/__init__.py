"""Trackers: packages that show the metrics of runs, `train.track=NAME:PROJECT`.

A module here defines `Tracker(trackers.Tracker)`. Its name is the value's first word,
and that of the package it needs.
"""

import abc
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from etils import epath

from research.contract.errors import UserError, missing_package
from research.contract.parts import Folder
from research.files.json_files import digest
from research.files.paths import absolute_path

FOLDER = Folder("research.record.trackers", "Tracker")


class Tracker(abc.ABC):
    """One run there for a workdir: a run that resumes goes on in it.

    Attributes:
      remedy: ends the error of a run that cannot begin.
    """

    remedy: ClassVar[str] = ""

    @abc.abstractmethod
    def __init__(self, project: str, workdir: epath.Path, config: Mapping[str, Any]):
        """Begins the run, or goes on with it.

        Args:
          config: flat, dotted key -> value.
        """

    @abc.abstractmethod
    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the metrics of a step."""

    @abc.abstractmethod
    def write_table(
        self, step: int, name: str, columns: Sequence[str], rows: Sequence[list[str]]
    ) -> None:
        """Writes a table of texts."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the run once all is written."""


def split_track(track: str) -> tuple[str, str]:
    """The tracker and the project of a value of train.track.

    Raises:
      UserError: it is not NAME:PROJECT, or there is no such tracker.
    """
    name, colon, project = track.partition(":")
    if not (name and colon and project):
        names = ", ".join(f"{known}:PROJECT" for known in FOLDER.names())
        raise UserError(f"train.track must be {names} or empty, got {track!r}")
    if name not in (known := FOLDER.names()):
        raise UserError(f"train.track must begin with {', '.join(known)}, got {name!r}")
    return name, project


def open_tracker(track: str, workdir: epath.Path, config: Mapping[str, Any]) -> Tracker:
    """The run of a workdir in the tracker that `track` names.

    Raises:
      UserError: there is no such tracker, its package is missing, or it cannot begin a
        run.
    """
    name, project = split_track(track)
    cls: type[Tracker] = FOLDER.part_class(name, "train.track")
    try:
        return cls(project, workdir, config)
    except ImportError as error:
        raise missing_package(f"train.track={track}", name) from error
    except Exception as error:  # of the package: one of its many types
        reason, *_ = [*str(error).splitlines(), type(error).__name__]
        raise UserError(f"train.track={track}: {reason}{cls.remedy}") from error


def run_id(project: str, workdir: epath.Path) -> str:
    """12 hex digits that name a workdir's run within a project."""
    return digest([os.fspath(absolute_path(workdir)), project])
