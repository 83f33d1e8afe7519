"""The records on disk of the attempts at a job, and whether the job may be retried.

Each process of each attempt writes its own file in the job's folder, so the records are
complete even if drivers, backends or machines die.
"""

import dataclasses
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from etils import epath

from launch import cli
from research.files.existence import files_in
from research.files.json_files import NUMBER, read_json, write_json

FOLDER = "attempts"
HEARTBEAT_INTERVAL_S = 5.0
HEARTBEAT_TIMEOUT_S = 60.0
"""Seconds without a heartbeat after which an attempt counts as lost."""

NO_RETRY_CODES = (cli.MISTAKE, cli.NON_FINITE)
"""Exit codes of deterministic errors: a user's mistake, a loss that is not finite."""
PREEMPTED_CODES = (cli.PREEMPTED, cli.INTERRUPTED)
"""Exit codes of commands that were asked to stop, or that lost another process."""


@dataclasses.dataclass(frozen=True)
class Budget:
    """How often a job may be restarted in a round.

    A round is one call of `launch.sweep` or of its `resume`.
    """

    preemptions: int = 100
    retries: int = 3
    round: int = 1


@dataclasses.dataclass(frozen=True)
class ProcessRecord:
    """The record of one process of an attempt; a job of N hosts has N processes.

    Times are in seconds since 1970.
    """

    attempt: str  # the same for all processes of an attempt
    rank: int  # the process's rank in its attempt
    round: int
    host: str
    pid: int  # process id of `run_attempt`, the parent of the command
    started: float
    heartbeat: float
    ended: float | None = None
    exit_code: int | None = None
    stop_requested: bool = False  # the backend wanted it to stop
    process_start: str = ""  # the result of `process_start` for `pid`
    step: int | None = None  # the last logged step when the process ended

    @property
    def failure(self) -> str:
        """How a process without a result counts: mistake, failure or preemption."""
        if self.exit_code in NO_RETRY_CODES:
            return "mistake"
        lost = self.exit_code is None or self.exit_code in PREEMPTED_CODES
        return "preemption" if lost or self.stop_requested else "failure"

    @property
    def alive(self) -> bool:
        """Whether the process has not ended and its last heartbeat is recent.

        One in the future is of a clock that was set back since.
        """
        recent = abs(time.time() - self.heartbeat) < HEARTBEAT_TIMEOUT_S
        return self.exit_code is None and recent

    def write(self, folder: epath.Path) -> None:
        """Writes the record to a job's folder, atomically."""
        name = f"{self.attempt}.{self.rank}.json"
        write_json(folder / FOLDER / name, dataclasses.asdict(self))


RECORD_FIELDS = {
    **{name: str for name in ("attempt", "host")},
    **{name: int for name in ("rank", "round", "pid")},
    **{name: NUMBER for name in ("started", "heartbeat")},
    "ended": (*NUMBER, type(None)),
    "exit_code": (int, type(None)),
    "stop_requested": bool,
    "process_start": str,
    "step": (int, type(None)),
}
"""The JSON type of each field in the file of a `ProcessRecord`."""


def process_start(pid: int) -> str:
    """The start time of a process of this machine, as the system reports it; "": none.

    The system reuses process ids; id and start time together identify a process.
    """
    if sys.platform == "linux":
        try:
            status = Path(f"/proc/{pid}/stat").read_text("utf-8")
        except OSError:
            return ""
        return status.rpartition(")")[2].split()[19]  # starttime of proc(5)
    command = ["ps", "-o", "lstart=", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


@dataclasses.dataclass(frozen=True)
class Attempt:
    """The processes that ran a job together."""

    processes: tuple[ProcessRecord, ...]

    @property
    def name(self) -> str:
        return self.processes[0].attempt

    @property
    def root_cause(self) -> ProcessRecord:
        """The process whose end explains the end of the attempt.

        A process that ended since it lost another one is not the cause; nor is a lost
        process, if another one has an exit code.
        """
        order = ("mistake", "failure", "preemption")
        ended = [p for p in self.processes if p.exit_code is not None]
        return min(
            ended or self.processes,
            key=lambda p: (order.index(p.failure), p.exit_code == cli.DONE),
        )

    @property
    def round(self) -> int:
        return self.processes[0].round

    @property
    def alive(self) -> bool:
        return any(process.alive for process in self.processes)

    @property
    def hosts(self) -> list[str]:
        return sorted({process.host for process in self.processes})


def start_time(earlier: Iterable[Attempt]) -> float:
    """The time of a new attempt, which is after those of the earlier ones.

    It is so also if the clock was set back since.
    """
    started = (p.started for attempt in earlier for p in attempt.processes)
    return max([time.time(), *(each + 1e-3 for each in started)])


def read_attempts(folder: epath.Path) -> list[Attempt]:
    """The attempts at the job of a folder, the oldest first."""
    groups: dict[str, list[ProcessRecord]] = {}
    for file in files_in(folder / FOLDER, ".json"):
        remedy = "delete it: this attempt is then not counted"
        read = read_json(file, remedy, RECORD_FIELDS)
        record = ProcessRecord(**read)
        groups.setdefault(record.attempt, []).append(record)
    attempts = [
        Attempt(tuple(sorted(group, key=lambda record: record.rank)))
        for group in groups.values()
    ]
    return sorted(attempts, key=lambda attempt: attempt.processes[0].started)


def no_retry_reason(ended: Iterable[Attempt], budget: Budget) -> str | None:
    """Why a job may not be retried, in half a line; None if it may.

    Args:
      ended: the attempts at the job that have ended, of which only those of this round
        count.
    """
    causes = [attempt.root_cause for attempt in ended if attempt.round == budget.round]
    failures = [process.failure for process in causes]
    if "mistake" in failures:
        return describe_end(causes[failures.index("mistake")])
    if failures.count("failure") > budget.retries:
        return describe_end(causes[-1 - failures[::-1].index("failure")])
    if failures.count("preemption") > budget.preemptions:
        return f"preempted more than {budget.preemptions} times (--preemptions)"
    return None


def describe_end(process: ProcessRecord) -> str:
    """How a process ended, in half a line."""
    if process.failure == "preemption":
        lost = process.exit_code is None
        return f"lost with {process.host}" if lost else "preempted"
    if process.exit_code == cli.DONE:
        return "ended without a result"
    return f"failed with exit code {process.exit_code}"


def describe_attempt(number: int, attempt: Attempt) -> str:
    """One line of a job's history: when, where, how it ended, and after which step."""
    cause = attempt.root_cause
    started = time.strftime("%d %b %H:%M:%S", time.localtime(cause.started))
    end = cause.heartbeat if cause.ended is None else cause.ended
    where, lasted = ", ".join(attempt.hosts), f"{(end - cause.started) / 60:.1f} min"
    how = "done" if cause.exit_code == cli.DONE else describe_end(cause)
    if attempt.alive:
        how = "running"
    steps = [p.step for p in attempt.processes if p.step is not None]
    at = f"step {max(steps)}" if steps else "step unknown"
    return f"attempt {number}: {started}, {where}, {lasted}, {how}, {at}"
