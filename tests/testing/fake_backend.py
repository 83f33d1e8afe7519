"""A backend that runs nothing: jobs end at the second poll, as the test specifies."""

import dataclasses
import json
from pathlib import Path
from typing import ClassVar

import pytest

from launch.backends import backend, run_attempt, submit
from launch.backends.attempt_log import ProcessRecord
from launch.backends.backend import flag
from launch.backends.resources import Resources
from research.contract.parts import Folder
from research.record.workdir import write_result

LOST, NEVER_STARTED, GOES_ON = None, "never started", "goes on"
"""In place of an exit code: the job's machine dies; no process of the job starts; it
does not end."""


@dataclasses.dataclass
class Backend:
    """`codes[i]` is the exit code of the i-th submitted job; the default is 0.

    Code 130 raises KeyboardInterrupt in the driver, and the job goes on.
    """

    location: str
    resources: Resources
    colour: str = flag("", "it has no effect")

    poll_interval_s, default_parallel, max_parallel = 0.0, 1, 0
    detached: ClassVar[bool] = False
    codes: ClassVar[dict[int, int | str | None]] = {}
    submitted: ClassVar[list[Path]] = []  # the folder of each job, as often as it is
    num_polls: ClassVar[dict[str, int]] = {}  # by handle, of jobs that are alive
    num_alive: ClassVar[int] = 0
    max_alive: ClassVar[int] = 0

    def submit(self, jobs, budget):
        handles = {}
        for job in jobs:
            index = len(self.submitted)
            self.submitted.append(job.folder)
            job.folder.mkdir(parents=True, exist_ok=True)
            with run_attempt.log_path(job.folder).open("a") as log:
                log.write("some line\nthe last line\n")
            handle = json.dumps([index, str(job.folder), budget.round])
            handles[job.id] = handle
            if self.codes.get(index) != NEVER_STARTED:
                self._record(handle).write(job.folder)
            self.num_polls[handle] = 0
            cls = type(self)
            cls.num_alive += 1
            cls.max_alive = max(cls.max_alive, cls.num_alive)
        return handles

    def alive(self, handles):
        return [handle for handle in list(handles) if self._poll(handle)]

    def cancel(self, handles):
        for handle in list(handles):
            if self.num_polls.pop(handle, None) is not None:
                type(self).num_alive -= 1

    def _poll(self, handle):
        if handle not in self.num_polls:
            return False
        self.num_polls[handle] += 1
        if self.num_polls[handle] < 2:
            return True
        index, folder, _ = json.loads(handle)
        code = self.codes.get(index, 0)
        if code == GOES_ON:
            return True
        if code == 130:
            self.num_polls[handle] = 0
            raise KeyboardInterrupt
        self.cancel([handle])
        folder = Path(folder)
        if code == 0:
            write_result(folder, {"metrics": {"valid/loss": 1}})
        if code not in (LOST, NEVER_STARTED):
            record = self._record(handle)
            dataclasses.replace(record, exit_code=code, ended=index).write(folder)
        return False

    def _record(self, handle):
        index, _, round = json.loads(handle)
        return ProcessRecord(
            attempt=f"{index:05d}",
            rank=0,
            round=round,
            host="nowhere",
            pid=0,
            started=index,
            heartbeat=index,
        )


@dataclasses.dataclass(frozen=True)
class WithFake:
    """A folder with one part more."""

    folder: Folder

    def names(self):
        return [*self.folder.names(), "fake"]

    def lines(self):
        return self.folder.lines()

    def part_class(self, name, key):
        return Backend if name == "fake" else self.folder.part_class(name, key)


def install(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Path], dict]:
    """Makes this the backend of --on=fake; returns its `submitted` and `codes`."""
    Backend.submitted, Backend.codes, Backend.num_polls = [], {}, {}
    Backend.num_alive = Backend.max_alive = 0
    Backend.detached = False
    folder = WithFake(backend.FOLDER)
    for module in (backend, submit):
        monkeypatch.setattr(module, "FOLDER", folder)
    return Backend.submitted, Backend.codes
