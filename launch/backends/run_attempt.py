"""One attempt at a task: runs its command, keeps its log, leaves a record.

    python -m launch.backends.run_attempt --folder=F -- python -m launch.train ...

This is what engines start, on whichever machine. Its exit code is the command's, or
`GIVEN_UP` where the task's budget is used up; a task that has its result is left alone.
Only one attempt at a task runs at a time where the folder's file system has locks.
SIGTERM goes on to the command, which then has the time that the engine grants.
"""

import argparse
import contextlib
import ctypes
import dataclasses
import fcntl
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from etils import epath

from launch import cli
from launch.backends import attempt_log
from launch.backends.attempt_log import Budget, Process

GIVEN_UP = 4
"""Exit code of an attempt that is not made: the budget is used up."""

LOG, RESULT = "log.txt", "result.json"
LIBC = ctypes.CDLL(None)
SET_DEATH_SIGNAL = 1
"""Of prctl(2)."""


def command(
    task: Sequence[str],
    folder: epath.PathLike,
    budget: Budget,
    *,
    attempt: str = "",
    rank: int | str = 0,
) -> list[str]:
    """The command that makes an attempt at the task of a command."""
    flags = {"folder": folder, **dataclasses.asdict(budget)}
    flags |= {"attempt": attempt, "rank": rank}
    words = [f"--{name}={value}" for name, value in flags.items() if value != ""]
    return ["python", "-m", "launch.backends.run_attempt", *words, "--", *task]


def run(
    task: Sequence[str],
    folder: epath.PathLike,
    budget: Budget,
    *,
    attempt: str = "",
    rank: int = 0,
    asked: Callable[[], bool] = lambda: False,
) -> int:
    """Runs a command to its end, unless the task is done or its budget used up.

    Args:
      task: the command; "python" is the interpreter that runs this.
      attempt: a name that sorts by time, the same on all hosts of an attempt.
      rank: of this process among them.
      asked: says whether the engine wants the command to stop.

    Returns:
      its exit code; that of a shell, 128 + n, where signal n killed it.
    """
    folder = epath.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    attempt = attempt or f"{time.time_ns()}"
    with _lock(folder, rank) as lock:
        if (folder / RESULT).exists():
            return cli.DONE
        before = [each for each in attempt_log.read(folder) if _name(each) != attempt]
        if attempt_log.refusal(before, budget):
            return GIVEN_UP
        now = time.time()
        process = Process(
            attempt, rank, budget.round, socket.gethostname(), os.getpid(), now, now
        )
        process.write(folder)
        with _output(folder, rank) as output:
            words = " ".join(shlex.join(task).split())
            output.write(f"--- {time.ctime()}, {process.host}: {words}\n".encode())
            output.flush()
            job = start(task, output, keep=lock, bound=True)
            process = _watch(job, process, folder, asked)
        process.write(folder)
    return process.code


def start(
    task: Sequence[str],
    output: IO[bytes],
    *,
    keep: Sequence[int] = (),
    bound: bool = False,
) -> subprocess.Popen:
    """Starts a command, with huge pages for its arrays, in a session of its own.

    Args:
      output: where what it prints goes.
      keep: file descriptors that it inherits.
      bound: it is killed when this process dies.
    """
    first, *rest = task
    return subprocess.Popen(
        [sys.executable if first == "python" else first, *rest],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"} | os.environ,
        pass_fds=keep,
        preexec_fn=_bound if bound else None,
        start_new_session=True,
    )


def bind(last: int = signal.SIGKILL) -> None:
    """This process gets a signal when the thread that started it dies, on Linux."""
    if sys.platform == "linux":
        LIBC.prctl(SET_DEATH_SIGNAL, last)


def _bound() -> None:
    """What a command is born with: it dies with us, and hears of Slurm's time by us.

    Slurm sends USR2 to all of a job, and a program that knows nothing of it would die.
    """
    bind()
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)


def _watch(
    job: subprocess.Popen,
    process: Process,
    folder: epath.Path,
    asked: Callable[[], bool],
) -> Process:
    """The record of a job once it has ended; until then it gets signs of life."""
    while True:
        if asked() and not process.asked:
            process = dataclasses.replace(process, asked=True)
            job.terminate()
        try:
            code = job.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            now = time.time()
            if now - process.beat >= attempt_log.BEAT:
                process = dataclasses.replace(process, beat=now)
                process.write(folder)
            continue
        code = 128 - code if code < 0 else code
        return dataclasses.replace(process, ended=time.time(), code=code)


@contextlib.contextmanager
def _lock(folder: epath.Path, rank: int) -> Iterator[tuple[int, ...]]:
    """Holds the task's lock for this rank, as long as it or its command lives.

    A bucket has no locks; there the engine alone sees to it that one attempt runs.
    """
    if "://" in os.fspath(folder):
        yield ()
        return
    with lock_file(folder, rank).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{folder}: waiting for an earlier attempt to end", file=sys.stderr)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield (file.fileno(),)


def lock_file(folder: epath.PathLike, rank: int = 0) -> Path:
    return Path(folder) / f".lock.{rank}"


def held(folder: epath.PathLike) -> bool:
    """A process of this file system is at a task."""
    try:
        with lock_file(folder).open("r") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def log(folder: epath.Path, rank: int = 0) -> epath.Path:
    """The log of a task: of its first process, or of another one."""
    return folder / (f"log.{rank}.txt" if rank else LOG)


@contextlib.contextmanager
def _output(folder: epath.Path, rank: int) -> Iterator[IO[bytes]]:
    """A file to append to; for a bucket, which cannot, this process' own output."""
    if "://" in os.fspath(folder):
        yield sys.stdout.buffer
    else:
        with Path(log(folder, rank)).open("ab") as file:
            yield file


def _name(attempt: attempt_log.Attempt) -> str:
    return attempt.processes[0].attempt


def main(argv: Sequence[str] | None = None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    cut = argv.index("--")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    for field in dataclasses.fields(Budget):
        parser.add_argument(f"--{field.name}", type=int, default=field.default)
    parser.add_argument("--attempt", default="")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument(
        "--bound", action="store_true", help="SIGTERM comes when the starter dies"
    )
    args = parser.parse_args(argv[:cut])
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    if args.bound:
        bind(signal.SIGTERM)
    return run(
        argv[cut + 1 :],
        args.folder,
        Budget(args.preemptions, args.retries, args.round),
        attempt=args.attempt,
        rank=args.rank,
        asked=lambda: bool(told),
    )


if __name__ == "__main__":
    sys.exit(main())
