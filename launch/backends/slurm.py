"""A Slurm cluster, --on=slurm:PARTITION: job arrays, by submitit, that requeue."""

import dataclasses
import os
import signal
import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from etils import epath

from launch import cli
from launch.backends import attempt_log, run_attempt
from launch.backends.attempt_log import Budget
from launch.backends.backend import Job, flag
from launch.backends.resources import Resources
from research.contract.errors import UserError, missing_package

MAX_ARRAY_SIZE = 1000
"""The largest job array; Slurm's limit is 1001 unless a cluster raises it."""
CONTROLLER_TIMEOUT_S = 600.0
"""Seconds for which the controller may be unreachable before it is an error."""


@dataclasses.dataclass
class Backend:
    """A handle is Slurm's job id, "17" or "17_3". Its output is in WORKDIR/slurm."""

    location: str  # the partition
    resources: Resources
    minutes: int = flag(1440, "time limit; a job that reaches it saves and requeues")
    grace: int = flag(120, "seconds for a job to save itself")
    account: str = flag("", "the account to charge")
    qos: str = flag("", "quality of service")
    constraint: str = flag("", "features that the nodes must have")
    memory: int = flag(0, "GiB of each host; 0: the partition's default")
    setup: str = flag("", "a shell command before each job")

    requires = "submitit>=1.5"
    detached, poll_interval_s, default_parallel, max_parallel = True, 5.0, 0, 0

    def __post_init__(self):
        if not self.location:
            raise UserError(
                "--on=slurm lacks the partition; write --on=slurm:PARTITION"
            )
        if self.resources.slice:
            raise UserError("--on=slurm has no TPU slices; give --hosts and --gpus")
        self._unreachable_since = 0.0  # 0: the controller is reachable

    def submit(self, jobs: Sequence[Job], budget: Budget) -> dict[str, str]:
        try:
            import submitit
        except ImportError as error:
            raise missing_package("--on=slurm", "submitit", "slurm") from error
        handles = {}
        for first in range(0, len(jobs), MAX_ARRAY_SIZE):
            array = jobs[first : first + MAX_ARRAY_SIZE]
            try:
                folder = os.fspath(array[0].folder.parent / "slurm")
                executor = submitit.SlurmExecutor(folder)
                executor.update_parameters(**self._parameters(len(array)))
                with executor.batch():
                    submitted = [executor.submit(RunJob(job, budget)) for job in array]
            except (RuntimeError, submitit.core.utils.FailedJobError) as error:
                reason = (str(error).strip() or "sbatch refuses").splitlines()[-1]
                raise UserError(f"--on=slurm:{self.location}: {reason}") from error
            for job, slurm_job in zip(array, submitted, strict=True):
                handles[job.id] = slurm_job.job_id
        return handles

    def alive(self, handles: Iterable[str]) -> Collection[str]:
        handles = set(handles)
        if not handles:
            return handles
        done = _run_slurm("squeue", "--me", "--noheader", "--array", "--format=%i")
        if done.returncode == 0:
            self._unreachable_since = 0.0
            return handles.intersection(done.stdout.split())
        self._unreachable_since = self._unreachable_since or time.monotonic()
        if time.monotonic() - self._unreachable_since > CONTROLLER_TIMEOUT_S:
            raise UserError(f"--on=slurm:{self.location}: {done.stderr.strip()}")
        return handles

    def cancel(self, handles: Iterable[str]) -> None:
        alive = sorted(self.alive(handles))
        if alive:
            _run_slurm("scancel", "--state=PENDING", *alive)
            # Signal only the steps: if the batch shell ends, Slurm kills them early.
            _run_slurm("scancel", "--signal=TERM", *alive)
            deadline = time.monotonic() + self.grace
            while self.alive(alive) and time.monotonic() < deadline:
                time.sleep(1)
            _run_slurm("scancel", *alive)

    def _parameters(self, array_size: int) -> dict[str, Any]:
        """The job's parameters by submitit's names."""
        parameters = {
            "partition": self.location,
            "job_name": "palimpsest",
            "time": self.minutes,
            "nodes": self.resources.hosts,
            "ntasks_per_node": 1,
            "cpus_per_task": self.resources.cpus,
            "gpus_per_node": self.resources.gpus or None,
            "account": self.account or None,
            "qos": self.qos or None,
            "constraint": self.constraint or None,
            "mem": f"{self.memory}GB" if self.memory else None,
            "setup": [self.setup] if self.setup else None,
            "signal_delay_s": self.grace,
            "stderr_to_stdout": True,
            "array_parallelism": array_size,
            "additional_parameters": {"requeue": True},
        }
        return {name: value for name, value in parameters.items() if value is not None}


class RunJob:
    """The callable that submitit pickles and each process of a Slurm job calls.

    It is called again each time the Slurm job is requeued.
    """

    def __init__(self, job: Job, budget: Budget):
        self.command, self.budget = job.command, budget
        self.folder = epath.Path(job.folder)

    def __call__(self) -> int:
        """Runs one process of an attempt; the process of rank 0 requeues the job.

        Slurm sends SIGUSR2 before the time limit; then the job requeues itself. Slurm
        sends SIGTERM when it preempts or cancels a job, and requeues it if needed.
        """
        signals = []
        signal.signal(signal.SIGUSR2, lambda number, _: signals.append(number))
        signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
        job_id, rank = _slurm_job_id(), int(os.environ["SLURM_PROCID"])
        code = run_attempt.run(
            self.command,
            self.folder,
            self.budget,
            attempt=f"{job_id}.{os.environ.get('SLURM_RESTART_COUNT', 0)}",
            rank=rank,
            stop_requested=lambda: bool(signals),
        )
        final = code in (cli.DONE, run_attempt.BUDGET_EXHAUSTED)
        if final or signal.SIGTERM in signals or rank:
            return code
        attempts = attempt_log.read_attempts(self.folder)
        if not attempt_log.no_retry_reason(attempts, self.budget):
            subprocess.run(["scontrol", "requeue", job_id], check=True)
        return code


def _slurm_job_id() -> str:
    """This process's Slurm job as squeue prints it: "17", or "17_3" in an array."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ["SLURM_JOB_ID"]


def _run_slurm(*command: str) -> subprocess.CompletedProcess:
    """Runs a command of Slurm.

    Raises:
      UserError: Slurm is not installed on this machine.
    """
    try:
        return subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise UserError(f"--on=slurm: there is no {command[0]} here") from error
