"""Drives tasks through an engine until each has its result or is given up.

All it knows is in files, so that another one can take over: what it has handed over in
`jobs.json`, what became of it in the tasks' folders.
"""

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence

from etils import epath

from launch import cli
from launch.backends import Engine, Task, attempt_log, run_attempt
from launch.backends.attempt_log import Budget, Process
from launch.backends.progress import Board
from research.errors import UserError

LOCK, JOBS = "driver.json", "jobs.json"


class Runner:
    """Runs tasks, parents first; one that is lost or fails is started again."""

    def __init__(
        self,
        tasks: Sequence[Task],
        engine: Engine,
        board: Board,
        *,
        workdir: epath.Path,
        budget: Budget,
        parallel: int | None = None,  # tasks at a time; None: the engine's own
    ):
        self.waiting = list(tasks)
        self.engine, self.board, self.budget = engine, board, budget
        self.parallel = parallel or engine.parallel or len(tasks)
        self.path = workdir / JOBS
        self.running: dict[Task, str] = {}
        self.before: dict[Task, int] = {}  # attempts that were there at submission
        self.failed: dict[Task, str] = {}

    def run(self) -> dict[Task, str]:
        """Returns the tasks that have no result in the end, and why."""
        self._adopt()
        try:
            while self.waiting or self.running:
                self._begin()
                time.sleep(self.engine.pause)
                self.board.look()
                self._collect()
        finally:
            if not self.engine.outlives:
                self.engine.cancel(self.running.values())
                while self.engine.alive(self.running.values()):
                    time.sleep(self.engine.pause)
                self.running.clear()
            self._write()
        return self.failed

    def _adopt(self) -> None:
        """Takes over what an earlier driver handed to the engine and still lives."""
        left = jobs(self.path.parent)
        alive = set(self.engine.alive(left.values()))
        self.waiting = [task for task in self.waiting if not task.done]
        for task in list(self.waiting):
            if left.get(task.id) in alive:
                self.waiting.remove(task)
                self._start(task, left[task.id])
                self.board.say(f"{task.name}: runs already")

    def _begin(self) -> None:
        for task in list(self.waiting):
            lost = [p.name for p in task.parents.values() if p in self.failed]
            if lost:
                self.waiting.remove(task)
                self.failed[task] = f"not run for want of {lost[0]}"
        room = self.parallel - len(self.running)
        ready = [t for t in self.waiting if all(p.done for p in t.parents.values())]
        ready = ready[: max(0, room)]
        if not ready:
            return
        for task in ready:
            self.waiting.remove(task)
        for task in ready:
            self.before[task] = len(attempt_log.read(task.folder))
        submitted = self.engine.submit(ready, self.budget)
        for task in ready:
            self._start(task, submitted[task.id])
        self._write()

    def _start(self, task: Task, job: str) -> None:
        self.running[task] = job
        self.board.start(task)

    def _collect(self) -> None:
        alive = set(self.engine.alive(self.running.values()))
        ended = [task for task, job in self.running.items() if job not in alive]
        for task in ended:
            del self.running[task]
            attempts = attempt_log.read(task.folder)
            if not task.done and len(attempts) == self.before.get(task, 0):
                attempts.append(self._never_began(task))
            why = None if task.done else attempt_log.refusal(attempts, self.budget)
            outcome = task.summary if task.done else self._verdict(task, attempts)
            self.board.end(task, outcome)
            if why:
                self.failed[task] = outcome
            elif not task.done:
                self.waiting.insert(0, task)
        if ended:
            self._write()

    def _verdict(self, task: Task, attempts: Sequence[attempt_log.Attempt]) -> str:
        """How the last attempt ended, and the last line that it said."""
        worst = attempts[-1].worst
        path = run_attempt.log(task.folder, worst.rank)
        lines = path.read_text().split("\n") if path.exists() else []
        last = lines[-2] if len(lines) > 1 else path
        return f"{attempt_log.how(worst)} ({last})"

    def _never_began(self, task: Task) -> attempt_log.Attempt:
        """Records a job that ended before any process of it was there: a failure."""
        now = time.time()
        job = Process(
            attempt=f"{time.time_ns()}",
            rank=0,
            round=self.budget.round,
            host="",
            pid=0,
            began=now,
            beat=now,
            ended=now,
            code=cli.FAILED,
        )
        job.write(task.folder)
        return attempt_log.Attempt((job,))

    def _write(self) -> None:
        names = {task.id: job for task, job in self.running.items()}
        attempt_log.write_json(self.path, names)


def jobs(workdir: epath.Path) -> dict[str, str]:
    """The engine's names of what was handed over and had not ended: task id -> job."""
    path = workdir / JOBS
    return json.loads(path.read_text()) if path.exists() else {}


def forget(workdir: epath.Path) -> None:
    """Nothing is left of what was handed over."""
    attempt_log.write_json(workdir / JOBS, {})


@contextlib.contextmanager
def driving(workdir: epath.Path) -> Iterator[None]:
    """While it lasts no other driver may run here.

    Raises:
      UserError: one does.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    if "://" in os.fspath(workdir):  # a bucket has no locks
        yield
        return
    with open(workdir / LOCK, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"{workdir} is being run by another sweep") from error
        file.truncate(0)
        who = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        json.dump(who, file)
        file.flush()
        yield


def driver(workdir: epath.Path) -> Mapping[str, object] | None:
    """Who drives the sweep of a workdir now: pid, host, since; None: nobody."""
    path = workdir / LOCK
    if not path.exists():
        return None
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return json.loads(file.read())
    return None
