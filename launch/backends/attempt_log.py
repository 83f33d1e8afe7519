"""What is left on disk of a task's attempts, and whether it may be run once more.

Each process of each attempt writes a file of its own in the task's folder, so that
drivers, engines and machines may die and the tale is still whole.
"""

import dataclasses
import json
import os
import time
from collections.abc import Iterable
from typing import Any

from etils import epath

from launch import cli

FOLDER = "attempts"
BEAT = 5.0
"""Seconds between two signs of life."""
STALE = 60.0
"""Seconds without one after which an attempt counts as lost."""

HOPELESS = (cli.MISTAKE, cli.NON_FINITE)
"""Exit codes of what would only fail again: a mistake, a loss that is not finite."""
PREEMPTED = (cli.PREEMPTED, cli.INTERRUPTED)
"""Exit codes of what can go on elsewhere: asked to stop, or a peer was lost."""


@dataclasses.dataclass(frozen=True)
class Budget:
    """How often a task may be started again, counted from a round's beginning.

    A round is what one `launch.sweep` or one `resume` of it sets going.
    """

    preemptions: int = 100
    retries: int = 3
    round: int = 1


@dataclasses.dataclass(frozen=True)
class Process:
    """One process of an attempt; there are several where a task spans hosts."""

    attempt: str  # the same for all processes of an attempt
    rank: int
    round: int
    host: str
    pid: int  # of what watches over the command
    began: float  # seconds since 1970, as are the following
    beat: float
    ended: float | None = None
    code: int | None = None
    asked: bool = False  # the engine asked it to stop

    @property
    def fault(self) -> str:
        """What it ended by: mistake, failure or preemption."""
        if self.code in HOPELESS:
            return "mistake"
        lost = self.code is None or self.code in PREEMPTED
        return "preemption" if lost or self.asked else "failure"

    @property
    def lives(self) -> bool:
        """It has not ended and gave a sign of life lately."""
        return self.code is None and time.time() - self.beat < STALE

    def write(self, folder: epath.Path) -> None:
        """Leaves it in a task's folder, whole or not at all."""
        name = f"{self.attempt}.{self.rank}.json"
        write_json(folder / FOLDER / name, dataclasses.asdict(self))


@dataclasses.dataclass(frozen=True)
class Attempt:
    """The processes that ran a task together."""

    processes: tuple[Process, ...]

    @property
    def worst(self) -> Process:
        """The process that says why the attempt ended: a lost peer is not the cause."""
        order = ("mistake", "failure", "preemption")
        known = [p for p in self.processes if p.code is not None] or self.processes
        return min(known, key=lambda p: (order.index(p.fault), p.code == cli.DONE))

    @property
    def round(self) -> int:
        return self.processes[0].round

    @property
    def lives(self) -> bool:
        return any(process.lives for process in self.processes)

    @property
    def hosts(self) -> list[str]:
        return sorted({process.host for process in self.processes})


def read(folder: epath.Path) -> list[Attempt]:
    """The attempts at a task, the oldest first."""
    found: dict[str, list[Process]] = {}
    files = folder / FOLDER
    names = sorted(files.glob("*.json")) if files.exists() else []
    for file in names:
        process = Process(**json.loads(file.read_text()))
        found.setdefault(process.attempt, []).append(process)
    attempts = [
        Attempt(tuple(sorted(group, key=lambda process: process.rank)))
        for group in found.values()
    ]
    return sorted(attempts, key=lambda attempt: attempt.processes[0].began)


def refusal(ended: Iterable[Attempt], budget: Budget) -> str | None:
    """Why a task is not to be run again, from its attempts that have ended.

    Returns:
      half a line, or None while there is something left of the budget.
    """
    ours = [attempt.worst for attempt in ended if attempt.round == budget.round]
    faults = [process.fault for process in ours]
    if "mistake" in faults:
        return how(ours[faults.index("mistake")])
    if faults.count("failure") > budget.retries:
        return how(ours[-1 - faults[::-1].index("failure")])
    if faults.count("preemption") > budget.preemptions:
        return f"lost more than {budget.preemptions} times (--preemptions)"
    return None


def how(process: Process) -> str:
    """How a process ended, in half a line."""
    if process.fault == "preemption":
        return "preempted" if process.code is not None else f"lost with {process.host}"
    if process.code == cli.DONE:
        return "ended without a result"
    return f"failed with exit code {process.code}"


def root(workdir: epath.PathLike) -> epath.Path:
    """A workdir for tasks elsewhere: an absolute path, or the address of a bucket."""
    text = os.fspath(workdir)
    return epath.Path(text if "://" in text else os.path.abspath(text))


def write_json(path: epath.Path, value: Any) -> None:
    """A JSON file that is whole or not there, in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.parent / f".{path.name}.{os.getpid()}"
    draft.write_text(json.dumps(value, indent=1) + "\n")
    draft.replace(path)
