"""Runs jobs on a backend until each has its result or has used up its budget.

The process that does this is the driver. Its state is in files, so that another driver
can take over: the handles of submitted jobs are in `jobs.json`, the state of each job
is in its folder.
"""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence

from etils import epath

from launch import cli
from launch.backends import attempt_log, run_attempt
from launch.backends.attempt_log import Attempt, Budget, ProcessRecord
from launch.backends.backend import Job, JobBackend
from launch.backends.progress import JobProgress
from research.contract.errors import UserError
from research.distributed.file_lock import file_lock, is_locked
from research.files.existence import exists, is_file
from research.files.json_files import NUMBER, read_json, write_json
from research.files.paths import is_in_bucket

DRIVER_FILE, JOBS_FILE = "driver.json", "jobs.json"


class Scheduler:
    """Runs jobs, parents first, and restarts those that are preempted or fail."""

    def __init__(
        self,
        jobs: Sequence[Job],
        backend: JobBackend,
        progress: JobProgress,
        *,
        workdir: epath.Path,
        budget: Budget,
        parallel: int | None = None,  # jobs at a time; None: the backend's default
    ):
        self.waiting = list(jobs)
        self.backend, self.progress, self.budget = backend, progress, budget
        self.parallel = parallel or backend.default_parallel or len(jobs)
        self.workdir = workdir
        self.running: dict[Job, str] = {}  # job -> handle
        self.others: dict[str, str] = {}  # id -> handle, of jobs that are not ours
        self.num_attempts: dict[Job, int] = {}  # job -> attempts when it was submitted
        self.failed: dict[Job, str] = {}  # job -> reason

    def run(self) -> dict[Job, str]:
        """Runs all jobs; returns job -> reason for those without a result."""
        self._adopt()
        try:
            while self.waiting or self.running:
                self._submit()
                time.sleep(self.backend.poll_interval_s)
                self.progress.refresh()
                self._collect()
        finally:
            if not self.backend.detached:
                self.backend.cancel(self.running.values())
                while self.backend.alive(self.running.values()):
                    time.sleep(self.backend.poll_interval_s)
                self.running.clear()
            self._write_handles()
        return self.failed

    def _adopt(self) -> None:
        """Takes over the jobs of an earlier driver that are still alive.

        It keeps the handles of those that it was not given, for the next driver.
        """
        handles = read_handles(self.workdir)
        alive = set(self.backend.alive(handles.values()))
        self.waiting = [job for job in self.waiting if not job.done]
        for job in list(self.waiting):
            if handles.get(job.id) in alive:
                self.waiting.remove(job)
                self._start(job, handles[job.id])
                self.progress.log(f"{job.name}: already running")
        own = {job.id for job in self.running}
        self.others = {
            id: handle
            for id, handle in handles.items()
            if handle in alive and id not in own
        }

    def _submit(self) -> None:
        """Submits the jobs whose parents are done, as many as may run."""
        for job in list(self.waiting):
            failed = [p.name for p in job.parents.values() if p in self.failed]
            if failed:
                self.waiting.remove(job)
                self.failed[job] = f"not run, since {failed[0]} has no result"
        num_free = max(0, self.parallel - len(self.running))
        ready = [j for j in self.waiting if all(p.done for p in j.parents.values())]
        ready = ready[:num_free]
        if not ready:
            return
        for job in ready:
            self.waiting.remove(job)
        for job in ready:
            self.num_attempts[job] = len(attempt_log.read_attempts(job.folder))
        handles = self.backend.submit(ready, self.budget)
        for job in ready:
            self._start(job, handles[job.id])
        self._write_handles()

    def _start(self, job: Job, handle: str) -> None:
        self.running[job] = handle
        self.progress.start(job)

    def _collect(self) -> None:
        """Records the jobs that have ended, and queues those to be retried."""
        alive = set(self.backend.alive(self.running.values()))
        ended = [job for job, handle in self.running.items() if handle not in alive]
        for job in ended:
            del self.running[job]
            attempts = attempt_log.read_attempts(job.folder)
            if not job.done and len(attempts) == self.num_attempts.get(job, 0):
                attempts.append(self._record_missing_attempt(job))
            reason = (
                None if job.done else attempt_log.no_retry_reason(attempts, self.budget)
            )
            outcome = job.summary if job.done else self._describe_end(job, attempts)
            self.progress.end(job, outcome)
            if reason:
                self.failed[job] = outcome
            elif not job.done:
                self.waiting.insert(0, job)
        if ended:
            self._write_handles()

    def _describe_end(self, job: Job, attempts: Sequence[Attempt]) -> str:
        """How the last attempt ended, and the last line of its log."""
        cause = attempts[-1].root_cause
        path = run_attempt.log_path(job.folder, cause.rank)
        text = path.read_bytes().decode(errors="replace") if is_file(path) else ""
        lines = text.split("\n")
        last_line = lines[-2] if len(lines) > 1 else path
        return f"{attempt_log.describe_end(cause)} ({last_line})"

    def _record_missing_attempt(self, job: Job) -> Attempt:
        """Records as a failure a submitted job that ended before a process started."""
        now = attempt_log.start_time(attempt_log.read_attempts(job.folder))
        record = ProcessRecord(
            attempt=f"{time.time_ns()}",
            rank=0,
            round=self.budget.round,
            host="",
            pid=0,
            started=now,
            heartbeat=now,
            ended=now,
            exit_code=cli.FAILED,
        )
        record.write(job.folder)
        return Attempt((record,))

    def _write_handles(self) -> None:
        """Records the jobs that run, ours and those of an earlier driver."""
        alive = set(self.backend.alive(self.others.values())) if self.others else ()
        self.others = {k: v for k, v in self.others.items() if v in alive}
        handles = {job.id: handle for job, handle in self.running.items()}
        write_json(self.workdir / JOBS_FILE, self.others | handles)


def read_handles(workdir: epath.Path) -> dict[str, str]:
    """Job id -> handle, for the jobs that ran when the driver last wrote the file."""
    path = workdir / JOBS_FILE
    remedy = "delete it: jobs that still run are then not found, and not stopped"
    return read_json(path, remedy, values=str) if exists(path) else {}


def clear_handles(workdir: epath.Path) -> None:
    """Forgets all submitted jobs."""
    write_json(workdir / JOBS_FILE, {})


@contextlib.contextmanager
def only_driver(workdir: epath.Path) -> Iterator[None]:
    """Makes this process the only driver of a workdir, within the context.

    Raises:
      UserError: another process is its driver.
    """
    workdir.mkdir(parents=True, exist_ok=True)
    if is_in_bucket(workdir):  # a bucket has no locks
        yield
        return
    with file_lock(workdir / DRIVER_FILE, wait=False) as file:
        if file is None:
            raise UserError(f"{workdir} is being run by another sweep")
        file.truncate(0)
        host = socket.gethostname()
        json.dump({"pid": os.getpid(), "host": host, "since": time.time()}, file)
        file.flush()
        yield


def current_driver(workdir: epath.Path) -> Mapping[str, object] | None:
    """The driver of a workdir: its pid, host and start time; None if there is none."""
    path = workdir / DRIVER_FILE
    remedy = "stop that sweep by its process id, and delete it"
    fields = {"pid": int, "host": str, "since": NUMBER}
    driver = read_json(path, remedy, fields) if is_locked(path) else None
    if driver and driver["pid"] < 1:  # a group of processes, or all of them
        raise UserError(f"{path} is damaged (no process {driver['pid']}); {remedy}")
    return driver
