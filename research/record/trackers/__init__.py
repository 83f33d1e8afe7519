"""Trackers: packages that show the metrics of runs, `train.track=NAME:PROJECT`.

A module here defines `Tracker(trackers.Tracker)`. Its name is the value's first word.
It is found by listing this folder: nothing else names it.
"""

import abc
import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from etils import epath

from research.contract.errors import UserError, missing_package
from research.contract.parts import Folder
from research.files.json_files import digest
from research.files.paths import absolute_path

FOLDER = Folder("research.record.trackers", "Tracker", named_by="train.track")


class Tracker(abc.ABC):
    """One run there for a workdir: a run that resumes goes on in it.

    Attributes:
      package: the module that it imports where it begins; "": it needs none.
      requires: what installs it, as pip writes it: setup.py has it as an extra that is
        called as the tracker is.
      remedy: ends the error of a run that cannot begin.
      replaces: an earlier key of `train` whose value was a project; runs with it go on.
    """

    package: ClassVar[str] = ""
    requires: ClassVar[str] = ""
    remedy: ClassVar[str] = ""
    replaces: ClassVar[str] = ""

    @abc.abstractmethod
    def __init__(self, project: str, workdir: epath.Path, config: Mapping[str, Any]):
        """Begins the run, or goes on with it: `run_id` names it.

        Args:
          config: flat, dotted key -> value; what is begun shows them.
        """

    @abc.abstractmethod
    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Writes the metrics of a step; one that is not finite keeps no other back."""

    @abc.abstractmethod
    def write_table(
        self, step: int, name: str, columns: Sequence[str], rows: Sequence[list[str]]
    ) -> None:
        """Writes a table of texts."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the run once all is written; a second call raises nothing."""


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


def check_track(track: str) -> None:
    """Checks a value of train.track before a run begins.

    Raises:
      UserError: there is no such tracker, or its package is missing.
    """
    name, _ = split_track(track)
    cls: type[Tracker] = FOLDER.part_class(name, "train.track")
    if cls.package and importlib.util.find_spec(cls.package) is None:
        raise _without_package(track, cls)


def _without_package(track: str, cls: type[Tracker]) -> UserError:
    extra = split_track(track)[0]
    return missing_package(f"train.track={track}", cls.package, extra)


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
        raise _without_package(track, cls) from error
    except Exception as error:  # of the package: one of its many types
        reason, *_ = [*str(error).splitlines(), type(error).__name__]
        raise UserError(f"train.track={track}: {reason}{cls.remedy}") from error


def run_id(project: str, workdir: epath.Path) -> str:
    """12 hex digits that name a workdir's run within a project."""
    return digest([os.fspath(absolute_path(workdir)), project])
