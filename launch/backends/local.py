"""The engine that runs tasks on this machine, and needs nothing."""

import dataclasses
import os
import signal
import subprocess
from collections.abc import Collection, Iterable, Sequence

from etils import epath

from launch.backends import Need, Task, attempt_log, run_attempt
from launch.backends.attempt_log import Budget
from research.errors import UserError


@dataclasses.dataclass
class Engine:
    """A job is a process here, named by its task's folder."""

    where: str
    need: Need

    outlives, pause, parallel = False, 0.2, 1

    def __post_init__(self):
        if self.where:
            raise UserError(f"--on=local:{self.where}: write --on=local")
        if self.need != Need():
            raise UserError(
                "--on=local gives a trial this machine as it is; leave --hosts, "
                "--cpus, --gpus and --slice out"
            )
        self._started: dict[str, subprocess.Popen] = {}

    def submit(self, tasks: Sequence[Task], budget: Budget) -> dict[str, str]:
        jobs = {}
        for task in tasks:
            words = run_attempt.command(task.command, task.folder, budget)
            jobs[task.id] = job = os.fspath(task.folder)
            task.folder.mkdir(parents=True, exist_ok=True)
            with run_attempt.log(task.folder).open("ab") as output:
                self._started[job] = run_attempt.start(words, output)
        return jobs

    def alive(self, jobs: Iterable[str]) -> Collection[str]:
        return [job for job in jobs if self._alive(job)]

    def cancel(self, jobs: Iterable[str]) -> None:
        for job in self.alive(jobs):
            if job in self._started:
                self._started[job].terminate()
            else:
                for each in attempt_log.read(epath.Path(job))[-1].processes:
                    os.kill(each.pid, signal.SIGTERM)

    def _alive(self, job: str) -> bool:
        """Another driver's job, which we did not start, is seen by its lock."""
        if job in self._started:
            return self._started[job].poll() is None
        return run_attempt.held(job)
