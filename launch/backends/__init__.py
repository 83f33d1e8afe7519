"""Engines run a sweep's commands somewhere: submit, see which live, cancel.

An engine starts `launch.backends.run_attempt` for a task, on machines that see the task's
folder. What became of it is read in that folder, never told by the engine: it may have
restarted the command itself, on another machine, while nobody looked.
"""

import dataclasses
import importlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from etils import epath

from launch.backends.attempt_log import Budget
from launch.backends.resources import Need
from research.errors import UserError, unknown

RUNNING = ("local", "ray", "slurm")
"""Engines that this program drives, by module."""
RENDERED = ("gke", "sky")
"""Engines for which it writes files that another program takes, by module."""


class Task(Protocol):
    """Something to be run until its folder holds `result.json`."""

    id: str
    name: str  # for people
    folder: epath.Path
    parents: Mapping[str, "Task"]  # those that must be done before, by any key

    @property
    def done(self) -> bool: ...

    @property
    def command(self) -> list[str]:
        """What runs it; it goes on from where it stopped."""

    @property
    def progress(self) -> tuple[int, int]:
        """Steps done, and in all."""

    @property
    def summary(self) -> str:
        """What its result says, in half a line."""


class Engine(Protocol):
    """Starts attempts at tasks, perhaps again and again, until they are to end."""

    outlives: bool  # jobs go on without this process
    pause: float  # seconds between two looks
    parallel: int  # tasks at a time unless told; 0: as many as it takes

    def submit(self, tasks: Sequence[Task], budget: Budget) -> dict[str, str]:
        """Hands over tasks; returns the engine's name for each, by task id.

        A name is enough to find the job again from another process.
        """

    def alive(self, jobs: Iterable[str]) -> Collection[str]:
        """Those that wait or run, now or after a restart by the engine."""

    def cancel(self, jobs: Iterable[str]) -> None:
        """Asks jobs to stop, and not to be started again."""


class Rendered(Protocol):
    """Writes what another program is to run."""

    def render(self, waves: Sequence[Sequence[Task]], budget: Budget) -> dict[str, str]:
        """Files by name: one a task, and those that all need.

        Args:
          waves: those of one need the results of those before.
        """

    def advice(self, folder: epath.PathLike) -> list[str]:
        """The commands that run what was rendered into a folder."""


def option(default: Any, help: str) -> Any:
    """A field of an engine that is a flag, `--ENGINE.NAME`, of its default's type."""
    return dataclasses.field(default=default, metadata={"help": help}, kw_only=True)


def options(name: str) -> list[dataclasses.Field]:
    """The flags of an engine."""
    fields = dataclasses.fields(_module(name).Engine)
    return [field for field in fields if "help" in field.metadata]


def load(on: str, need: Need, flags: Mapping[str, Any]) -> Engine | Rendered:
    """The engine that `--on` names, such as "local" or "slurm:gpu".

    Args:
      need: what each task needs.
      flags: "ENGINE.NAME" -> value, of all engines.

    Raises:
      UserError: no such engine, or it cannot do what is asked of it.
    """
    name, _, where = on.partition(":")
    if name not in (*RUNNING, *RENDERED):
        raise unknown("engine", name, (*RUNNING, *RENDERED))
    chosen = {}
    for flag, value in flags.items():
        engine, _, field = flag.partition(".")
        if engine == name:
            chosen[field] = value
        else:
            raise UserError(f"--{flag} is of another engine than --on={on}")
    return _module(name).Engine(where, need, **chosen)


def _module(name: str) -> Any:
    return importlib.import_module(f"launch.backends.{name}")
