"""The engine of a Slurm cluster: tasks are submitit's job arrays, which requeue."""

import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from etils import epath

from launch.backends import Need, Task, attempt_log, option, run_attempt
from launch.backends.attempt_log import Budget
from research.errors import UserError

MOST = 1000
"""Tasks of an array; Slurm's own limit is 1001 unless a cluster raises it."""
PATIENCE = 600.0
"""Seconds for which the controller may be out of reach before that is an error."""


@dataclasses.dataclass
class Engine:
    """A job is a Slurm job, "17" or "17_3"; its output is in the sweep's slurm/."""

    where: str  # the partition
    need: Need
    minutes: int = option(1440, "after so many a job saves, and waits in line again")
    grace: int = option(120, "seconds for a job to save itself")
    account: str = option("", "whom it is charged to")
    qos: str = option("", "quality of service")
    constraint: str = option("", "features of the nodes")
    memory: int = option(0, "GiB of each host; 0: the partition's default")
    setup: str = option("", "a shell command before each job")

    outlives, pause, parallel = True, 5.0, 0

    def __post_init__(self):
        if not self.where:
            raise UserError(
                "--on=slurm lacks the partition; write --on=slurm:PARTITION"
            )
        if self.need.slice:
            raise UserError("--on=slurm has no TPU slices; give --hosts and --gpus")
        self._silent = 0.0  # since when the controller is out of reach

    def submit(self, tasks: Sequence[Task], budget: Budget) -> dict[str, str]:
        try:
            import submitit
        except ImportError as error:
            raise UserError(
                "--on=slurm needs the package submitit: pip install 'palimpsest[slurm]'"
            ) from error
        found = {}
        for first in range(0, len(tasks), MOST):
            some = tasks[first : first + MOST]
            try:
                folder = os.fspath(some[0].folder.parent / "slurm")
                executor = submitit.SlurmExecutor(folder)
                executor.update_parameters(**self._parameters(len(some)))
                with executor.batch():
                    jobs = [executor.submit(Run(task, budget)) for task in some]
            except (RuntimeError, submitit.core.utils.FailedJobError) as error:
                reason = (str(error).strip() or "sbatch refuses").splitlines()[-1]
                raise UserError(f"--on=slurm:{self.where}: {reason}") from error
            names = {task.id: job.job_id for task, job in zip(some, jobs, strict=True)}
            found |= names
        return found

    def alive(self, jobs: Iterable[str]) -> Collection[str]:
        jobs = set(jobs)
        if not jobs:
            return jobs
        done = _slurm("squeue", "--me", "--noheader", "--array", "--format=%i")
        if done.returncode == 0:
            self._silent = 0.0
            return jobs.intersection(done.stdout.split())
        self._silent = self._silent or time.monotonic()
        if time.monotonic() - self._silent > PATIENCE:
            raise UserError(f"--on=slurm:{self.where}: {done.stderr.strip()}")
        return jobs

    def cancel(self, jobs: Iterable[str]) -> None:
        alive = sorted(self.alive(jobs))
        if alive:
            _slurm("scancel", "--state=PENDING", *alive)
            # Only the steps: without their shell they would be killed before long.
            _slurm("scancel", "--signal=TERM", *alive)
            limit = time.monotonic() + self.grace
            while self.alive(alive) and time.monotonic() < limit:
                time.sleep(1)
            _slurm("scancel", *alive)

    def _parameters(self, number: int) -> dict[str, Any]:
        """submitit's names for what is asked of Slurm."""
        found = {
            "partition": self.where,
            "job_name": "palimpsest",
            "time": self.minutes,
            "nodes": self.need.hosts,
            "ntasks_per_node": 1,
            "cpus_per_task": self.need.cpus,
            "gpus_per_node": self.need.gpus or None,
            "account": self.account or None,
            "qos": self.qos or None,
            "constraint": self.constraint or None,
            "mem": f"{self.memory}GB" if self.memory else None,
            "setup": [self.setup] if self.setup else None,
            "signal_delay_s": self.grace,
            "stderr_to_stdout": True,
            "array_parallelism": number,
            "additional_parameters": {"requeue": True},
        }
        return {name: value for name, value in found.items() if value is not None}


class Run:
    """What a Slurm job calls, again each time that it is requeued."""

    def __init__(self, task: Task, budget: Budget):
        self.task, self.budget = task.command, budget
        self.folder = epath.Path(task.folder)

    def __call__(self) -> int:
        """One process of an attempt; the first one requeues the job if need be.

        USR2 comes from Slurm before the time is up; TERM when it takes the job away,
        and then it is Slurm, too, who starts it again, or not.
        """
        asked = []
        signal.signal(signal.SIGUSR2, lambda *_: asked.append("time is up"))
        signal.signal(signal.SIGTERM, lambda *_: asked.append("taken away"))
        job, rank = _job(), int(os.environ["SLURM_PROCID"])
        code = run_attempt.run(
            self.task,
            self.folder,
            self.budget,
            attempt=f"{job}.{os.environ.get('SLURM_RESTART_COUNT', 0)}",
            rank=rank,
            asked=lambda: bool(asked),
        )
        again = code not in (0, run_attempt.GIVEN_UP) and "taken away" not in asked
        if not again or rank:
            return code
        if not attempt_log.refusal(attempt_log.read(self.folder), self.budget):
            subprocess.run(["scontrol", "requeue", job], check=True)
        return code


def _job() -> str:
    """This job's name, as squeue tells it."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ["SLURM_JOB_ID"]


def _slurm(*command: str) -> subprocess.CompletedProcess:
    """Runs one of Slurm's commands.

    Raises:
      UserError: this machine has none.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise UserError(f"--on=slurm: there is no {command[0]} here") from error
