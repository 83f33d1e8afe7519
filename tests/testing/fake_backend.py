"""An engine that runs nothing: its jobs end at the second look, as a test tells."""

import dataclasses
import json
import sys
import types
from pathlib import Path
from typing import ClassVar

import pytest

from launch import backends
from launch.backends import option, run_attempt
from launch.backends.attempt_log import Process

LOST, SILENT = None, "silent"
"""Codes of a job whose machine dies, and of one that never begins."""


@dataclasses.dataclass
class Engine:
    """`codes[i]` is the exit code of the i-th start, 0 unless told."""

    where: str
    need: backends.Need
    colour: str = option("", "no more than a flag")

    pause, parallel = 0.0, 1
    outlives: ClassVar[bool] = False
    codes: ClassVar[dict[int, int | str | None]] = {}
    started: ClassVar[list[Path]] = []  # the folder of each start
    looks: ClassVar[dict[str, int]] = {}  # of jobs that live
    open: ClassVar[int] = 0
    most: ClassVar[int] = 0

    def submit(self, tasks, budget):
        jobs = {}
        for task in tasks:
            number = len(self.started)
            self.started.append(task.folder)
            task.folder.mkdir(parents=True, exist_ok=True)
            with run_attempt.log(task.folder).open("a") as log:
                log.write("some line\nthe last line\n")
            jobs[task.id] = job = json.dumps([number, str(task.folder), budget.round])
            if self.codes.get(number) is not SILENT:
                self._process(job).write(task.folder)
            self.looks[job] = 0
            cls = type(self)
            cls.open += 1
            cls.most = max(cls.most, cls.open)
        return jobs

    def alive(self, jobs):
        return [job for job in list(jobs) if self._alive(job)]

    def cancel(self, jobs):
        for job in list(jobs):
            if self.looks.pop(job, None) is not None:
                type(self).open -= 1

    def _alive(self, job):
        if job not in self.looks:
            return False
        self.looks[job] += 1
        if self.looks[job] < 2:
            return True
        number, folder, _ = json.loads(job)
        code = self.codes.get(number, 0)
        if code == 130:
            self.looks[job] = 0
            raise KeyboardInterrupt
        self.cancel([job])
        folder = Path(folder)
        if code == 0:
            (folder / "result.json").write_text('{"metrics": {"valid/loss": 1}}')
        if code not in (LOST, SILENT):
            ended = self._process(job)
            dataclasses.replace(ended, code=code, ended=number).write(folder)
        return False

    def _process(self, job):
        number, _, round = json.loads(job)
        return Process(
            attempt=f"{number:05d}",
            rank=0,
            round=round,
            host="nowhere",
            pid=0,
            began=number,
            beat=number,
        )


def install(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Path], dict]:
    """Makes `--on=fake` this engine; returns what it starts, and its codes."""
    Engine.started, Engine.codes, Engine.looks = [], {}, {}
    Engine.open = Engine.most = 0
    Engine.outlives = False
    module = types.ModuleType("launch.backends.fake")
    module.Engine = Engine
    monkeypatch.setitem(sys.modules, "launch.backends.fake", module)
    monkeypatch.setattr(backends, "RUNNING", (*backends.RUNNING, "fake"))
    return Engine.started, Engine.codes
