"""One attempt at a job: runs its command, and writes its log and its record.

    python -m launch.backends.run_attempt --folder=F -- python -m launch.train ...

Backends start this on some machine. It exits with the command's exit code, immediately
with 0 if the job already has its result, or with `BUDGET_EXHAUSTED`. Where the folder's
file system has locks, only one attempt at a job runs at a time. SIGTERM is passed on to
the command, which can save a checkpoint as long as the backend allows.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

from etils import epath

from launch import cli
from launch.backends import attempt_log
from launch.backends.attempt_log import Budget, ProcessRecord
from research.contract.errors import UserError
from research.distributed.file_lock import file_lock, is_locked
from research.files.paths import is_in_bucket
from research.record.metric_writer import read_metrics

BUDGET_EXHAUSTED = 4
"""Exit code: the retry budget is used up and the command was not started."""

LOG, RESULT = "log.txt", "result.json"
POLL_INTERVAL_S = 0.2
LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
"""An option of prctl(2)."""


def attempt_command(
    command: Sequence[str],
    folder: epath.PathLike,
    budget: Budget,
    *,
    attempt: str = "",
    rank: int | str = 0,
) -> list[str]:
    """The command line that runs an attempt at a job, see `run`."""
    flags = {"folder": folder, **dataclasses.asdict(budget)}
    flags |= {"attempt": attempt, "rank": rank}
    words = [f"--{name}={value}" for name, value in flags.items() if value != ""]
    return ["python", "-m", "launch.backends.run_attempt", *words, "--", *command]


def run(
    command: Sequence[str],
    folder: epath.PathLike,
    budget: Budget,
    *,
    attempt: str = "",
    rank: int = 0,
    stop_requested: Callable[[], bool] = lambda: False,
    on_record: Callable[[], object] = lambda: None,
) -> int:
    """Runs a command to its end, unless the job is done or its budget is used up.

    Args:
      command: "python" as its first word stands for this process's interpreter.
      folder: the job's folder.
      attempt: a name that sorts by time, the same on all hosts of the attempt.
      rank: the rank of this process in the attempt.
      stop_requested: polled; whether the backend wants the command to stop.
      on_record: called when the attempt has its record, before the command starts.

    Returns:
      the exit code of the command, or 128 + n if signal n killed it, as in a shell.
    """
    folder = epath.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    attempt = attempt or f"{time.time_ns()}"
    with _job_lock(folder, rank) as inherited:
        if (folder / RESULT).exists():
            return cli.DONE
        earlier = [a for a in attempt_log.read_attempts(folder) if a.name != attempt]
        if attempt_log.no_retry_reason(earlier, budget):
            return BUDGET_EXHAUSTED
        now, pid = attempt_log.start_time(earlier), os.getpid()
        record = ProcessRecord(
            attempt,
            rank,
            budget.round,
            socket.gethostname(),
            pid,
            now,
            time.time(),
            process_start=attempt_log.process_start(pid),
        )
        record.write(folder)
        on_record()
        with open_log(folder, rank) as output:
            words = " ".join(shlex.join(command).split())
            output.write(f"--- {time.ctime()}, {record.host}: {words}\n".encode())
            output.flush()
            process = start_process(
                command, output, inherited=inherited, die_with_parent=True
            )
            record = _wait(process, record, folder, stop_requested)
        record.write(folder)
    return record.exit_code


def start_process(
    command: Sequence[str],
    output: IO[bytes],
    *,
    inherited: Sequence[int] = (),
    die_with_parent: bool = False,
    cores: Collection[int] = (),
    variables: Mapping[str, str] | None = None,
) -> subprocess.Popen:
    """Starts a command in a new session, with huge pages for its arrays.

    Args:
      output: receives stdout and stderr.
      inherited: file descriptors that the command inherits.
      die_with_parent: kill the command when this process dies (on Linux).
      cores: the CPU cores that it and what it starts may use; (): all.
      variables: further environment variables, unless they are set already.
    """
    first, *rest = command
    with _only_on(cores):
        return subprocess.Popen(
            [sys.executable if first == "python" else first, *rest],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
            | dict(variables or {})
            | os.environ,
            pass_fds=inherited,
            preexec_fn=_before_exec if die_with_parent else None,
            start_new_session=True,
        )


@contextlib.contextmanager
def _only_on(cores: Collection[int]) -> Iterator[None]:
    """This thread, and what it starts, uses these cores; (): all that it may.

    A `preexec_fn` would do it in the child, but may deadlock where JAX has threads.
    """
    if not cores:
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def set_parent_death_signal(number: int = signal.SIGKILL) -> None:
    """On Linux, sends this process a signal when the thread that started it dies."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, number)


def _before_exec() -> None:
    """preexec_fn: the child dies with its parent, and ignores SIGUSR2.

    Slurm sends SIGUSR2 to all processes of a job before its time limit, which would
    kill a program without a handler. `run` sends SIGTERM instead.
    """
    set_parent_death_signal()
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def _wait(
    process: subprocess.Popen,
    record: ProcessRecord,
    folder: epath.Path,
    stop_requested: Callable[[], bool],
) -> ProcessRecord:
    """Waits for the command and writes heartbeats; returns the final record."""
    written = time.monotonic()  # the clock may be set back
    while True:
        if stop_requested() and not record.stop_requested:
            record = dataclasses.replace(record, stop_requested=True)
            process.terminate()
        try:
            code = process.wait(timeout=POLL_INTERVAL_S)
        except subprocess.TimeoutExpired:
            if time.monotonic() - written >= attempt_log.HEARTBEAT_INTERVAL_S:
                record = dataclasses.replace(record, heartbeat=time.time())
                # The command goes on, and the next heartbeat may be written.
                with contextlib.suppress(Exception):
                    record.write(folder)
                written = time.monotonic()
            continue
        code = 128 - code if code < 0 else code
        return dataclasses.replace(
            record, ended=time.time(), exit_code=code, step=_last_step(folder)
        )


def _last_step(folder: epath.Path) -> int | None:
    """The last step that the command has logged; None if it logs none."""
    try:
        return max((line["step"] for line in read_metrics(folder)), default=None)
    except UserError:  # a damaged file, which the command itself reports
        return None


@contextlib.contextmanager
def _job_lock(folder: epath.Path, rank: int) -> Iterator[tuple[int, ...]]:
    """Holds the job's lock for this rank; yields the descriptors that carry it.

    A command that inherits them keeps the lock if this process is killed. Buckets have
    no locks; there the backend must run one attempt at a time.
    """
    if is_in_bucket(folder):
        yield ()
        return
    message = f"{folder}: waiting for an earlier attempt to end"
    with file_lock(_lock_path(folder, rank), wait_message=message) as file:
        yield (file.fileno(),)


def is_running(folder: epath.PathLike) -> bool:
    """Whether an attempt at the job of a folder holds its lock."""
    return is_locked(_lock_path(folder))


def _lock_path(folder: epath.PathLike, rank: int = 0) -> epath.Path:
    return epath.Path(folder) / f".lock.{rank}"


def log_path(folder: epath.Path, rank: int = 0) -> epath.Path:
    """The log of one process of a job."""
    return folder / (f"log.{rank}.txt" if rank else LOG)


@contextlib.contextmanager
def open_log(folder: epath.Path, rank: int = 0) -> Iterator[IO[bytes]]:
    """The log, to append to; stdout if it is in a bucket, which cannot append."""
    if is_in_bucket(folder):
        yield sys.stdout.buffer
    else:
        with Path(log_path(folder, rank)).open("ab") as file:
            yield file


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one attempt; returns the exit code of its process."""
    argv = list(sys.argv[1:] if argv is None else argv)
    separator = argv.index("--")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    for field in dataclasses.fields(Budget):
        parser.add_argument(f"--{field.name}", type=int, default=field.default)
    parser.add_argument("--attempt", default="")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument(
        "--stop_with_parent",
        action="store_true",
        help="take the end of the parent process as SIGTERM",
    )
    parser.add_argument(
        "--record_fd",
        type=int,
        help="a file descriptor to write to when the attempt has its record",
    )
    args = parser.parse_args(argv[:separator])
    signals = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    if args.stop_with_parent:
        set_parent_death_signal(signal.SIGTERM)
    return run(
        argv[separator + 1 :],
        args.folder,
        Budget(args.preemptions, args.retries, args.round),
        attempt=args.attempt,
        rank=args.rank,
        stop_requested=lambda: bool(signals),
        on_record=lambda: args.record_fd and os.write(args.record_fd, b"1"),
    )


if __name__ == "__main__":
    sys.exit(main())
