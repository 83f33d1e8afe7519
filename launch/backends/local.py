"""The backend that runs jobs on this machine, without other programs."""

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
from launch.backends.backend import Job
from launch.backends.resources import Resources
from research.errors import UserError


@dataclasses.dataclass
class Backend:
    """A job is a child process; its handle is the job's folder."""

    location: str
    resources: Resources

    detached, poll_interval_s, default_parallel = False, 0.2, 1

    def __post_init__(self):
        if self.location:
            raise UserError(f"--on=local:{self.location}: write --on=local")
        if self.resources != Resources():
            raise UserError(
                "--on=local gives each job the whole machine; leave --hosts, --cpus, "
                "--gpus and --slice out"
            )
        self._processes: dict[str, subprocess.Popen] = {}  # by handle

    def submit(self, jobs: Sequence[Job], budget: Budget) -> dict[str, str]:
        handles = {}
        for job in jobs:
            command = run_attempt.attempt_command(job.command, job.folder, budget)
            handles[job.id] = handle = os.fspath(job.folder)
            job.folder.mkdir(parents=True, exist_ok=True)
            with run_attempt.log_path(job.folder).open("ab") as output:
                self._processes[handle] = run_attempt.start_process(command, output)
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
