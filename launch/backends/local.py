"""This machine, --on=local, without other programs."""

import dataclasses
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence

from etils import epath

from launch.backends import attempt_log, run_attempt
from launch.backends.attempt_log import Budget, ProcessRecord
from launch.backends.backend import Job, flag
from launch.backends.resources import Resources
from research.contract.errors import UserError

VARIABLES = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
"""Environment variables of jobs that the user has not set. JAX would give most of a
GPU's memory to the first job, where those that run at the same time share it."""


@dataclasses.dataclass
class Backend:
    """A job is a child process; its handle is the job's folder."""

    location: str
    resources: Resources
    cores: int = flag(0, "CPU cores of its own for each job; 0: all jobs share all")

    detached, poll_interval_s, reads_our_files = False, 0.2, True
    default_parallel, max_parallel = 1, 0

    def __post_init__(self):
        if self.location:
            raise UserError(f"--on=local:{self.location}: write --on=local")
        if self.resources != Resources():
            raise UserError(
                "--on=local gives each job the whole machine, or --local.cores of it; "
                "leave --hosts, --cpus, --gpus and --slice out"
            )
        self._processes: dict[str, subprocess.Popen] = {}  # by handle
        self._cores_of: dict[str, frozenset[int]] = {}  # by handle
        self._shares = _shares(self.cores)
        if self._shares:
            self.default_parallel = self.max_parallel = len(self._shares)

    def submit(self, jobs: Sequence[Job], budget: Budget) -> dict[str, str]:
        handles = {}
        alive = self.alive(self._cores_of)
        taken = {self._cores_of[handle] for handle in alive}
        free = [cores for cores in self._shares if cores not in taken]
        for job in jobs:
            command = run_attempt.attempt_command(job.command, job.folder, budget)
            handles[job.id] = handle = os.fspath(job.folder)
            job.folder.mkdir(parents=True, exist_ok=True)
            cores = free.pop(0) if self._shares else frozenset()
            with run_attempt.open_log(job.folder) as output:
                self._processes[handle] = run_attempt.start_process(
                    command, output, cores=cores, variables=VARIABLES
                )
            self._cores_of[handle] = cores
        return handles

    def alive(self, handles: Iterable[str]) -> Collection[str]:
        return [handle for handle in handles if self._is_alive(handle)]

    def cancel(self, handles: Iterable[str]) -> None:
        """Sends SIGTERM to jobs, including those of another driver on this machine.

        A line on standard error names each job that it does not stop, and the reason.
        """
        for handle in self.alive(handles):
            if handle in self._processes:
                self._processes[handle].terminate()
                continue
            attempts = attempt_log.read_attempts(epath.Path(handle))
            for process in attempts[-1].processes if attempts else ():
                if reason := _reason_to_leave(process):
                    print(f"{handle}: not stopped: {reason}", file=sys.stderr)
                else:
                    os.kill(process.pid, signal.SIGTERM)

    def _is_alive(self, handle: str) -> bool:
        """The lock tells whether a job runs that another driver has started."""
        if handle in self._processes:
            return self._processes[handle].poll() is None
        return run_attempt.is_running(handle)


def _shares(cores: int) -> list[frozenset[int]]:
    """The cores that this process may use, in sets of as many as a job gets.

    Raises:
      UserError: there are not as many, or the system keeps no process on its cores.
    """
    if not cores:
        return []
    if not hasattr(os, "sched_getaffinity"):
        raise UserError("--local.cores: only Linux keeps a process on cores of its own")
    own = sorted(os.sched_getaffinity(0))
    if not 0 < cores <= len(own):
        raise UserError(f"--local.cores={cores}: this machine has {len(own)}")
    starts = range(0, len(own) - cores + 1, cores)
    return [frozenset(own[start : start + cores]) for start in starts]


def _reason_to_leave(process: ProcessRecord) -> str:
    """Why the recorded process must not get a signal; "": it is running."""
    name, host = f"process {process.pid}", socket.gethostname()
    if process.host != host:
        return f"{name} is on {process.host}, and this is {host}; stop it there"
    started = attempt_log.process_start(process.pid)
    if not started:
        return f"{name} has ended"
    if started != process.process_start:
        return f"{name} is another one than that of the job, which has ended"
    return ""
