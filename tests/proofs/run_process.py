"""Runs of `launch.train` on this machine, to be begun, watched, killed, begun again."""

import atexit
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from launch import cli
from research.checkpoints.checkpoint import FOLDER, TEMPORARY, finished_steps
from research.run.metric_writer import read_metrics

POLL, PATIENCE, WAIT = 0.002, 600.0, 60
"""Seconds between two looks at a life, until one without an end is given up, and that
its processes wait for each other."""


class Run(NamedTuple):
    """A run of `launch.train`, however often it is begun."""

    workdir: Path
    flags: list[str]  # of launch.train, without the workdir
    processes: int = 1
    devices: int = 0  # fake ones of each process; 0: as the environment has it
    fork: bool = False  # whether the processes share this one's imports

    def begin(self) -> "Life":
        """Starts the command: all of its processes."""
        self.workdir.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("localhost", 0)) as server:
            port = server.getsockname()[1]
        return Life(self, [self._start(n, port) for n in range(self.processes)])

    def _start(self, index: int, port: int) -> "Process":
        flags = [*self.flags, f"--workdir={self.workdir}"]
        if self.processes > 1:
            flags += [f"--coordinator=localhost:{port}", f"--process_id={index}"]
            flags += [f"--num_processes={self.processes}", f"--wait={WAIT}"]
        environment = {"JAX_PLATFORMS": "cpu"}
        if self.devices:
            count = f"--xla_force_host_platform_device_count={self.devices}"
            environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {count}"
        with (self.workdir / f"log{index}.txt").open("ab") as log:
            if self.fork:
                return Forked(flags, environment, log.fileno())
            return subprocess.Popen(
                [sys.executable, "-m", "launch.train", *flags],
                env={**os.environ, **environment},
                stdout=log,
                stderr=log,
            )

    def lines(self) -> list[dict[str, float]]:
        """The whole lines of metrics.jsonl."""
        return read_metrics(self.workdir)

    def step(self) -> int:
        """The last step that is written down; 0 if none is."""
        return max((line["step"] for line in self.lines()), default=0)

    def saved(self) -> int:
        """The step of the newest finished checkpoint; 0 if there is none."""
        return next(finished_steps(self.workdir / FOLDER), 0)

    def saves(self) -> str:
        """The name of the checkpoint that is being saved; "" if none is."""
        with contextlib.suppress(FileNotFoundError):
            for path in (self.workdir / FOLDER).iterdir():
                if TEMPORARY in path.name:
                    return path.name
        return ""


class Process(Protocol):
    """What a life needs of one; a `subprocess.Popen` is one."""

    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> int: ...
    def send_signal(self, number: int) -> None: ...


class Forked:
    """`launch.train` in a fork of this process: seconds of imports are saved.

    This process must not have used JAX: its threads are not there after a fork.

    Args:
      log: the file that receives what is printed.
    """

    def __init__(self, flags: list[str], environment: Mapping[str, str], log: int):
        import research.train  # noqa: F401
        from launch import train

        self.code: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        try:
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.environ.update(environment)
            cli.main(train.run, train.parser(), flags)
        except SystemExit as end:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(end.code or 0)
        except BaseException as error:
            traceback.print_exception(error)
            os._exit(cli.FAILED)

    def poll(self) -> int | None:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.code = os.waitstatus_to_exitcode(status) if pid else None
        return self.code

    def wait(self, timeout: float) -> int:
        until = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > until:
                raise TimeoutError(f"process {self.pid} has not ended")
            time.sleep(POLL)
        return self.code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class Life:
    """A run's processes from a start to an end, one way or another."""

    def __init__(self, run: Run, processes: list[Process]):
        self.run, self.processes = run, processes
        self.began = time.monotonic()

    def age(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    def until(self, due: Callable[[], bool]) -> bool:
        """Waits for something, or the end of a process; whether it came first."""
        looks = 0
        while not due():
            looks += 1
            if any(process.poll() is not None for process in self.processes):
                return False
            if looks * POLL > PATIENCE:  # not the clock: all may have been suspended
                self.end()
                raise RuntimeError(f"{self.run.workdir} stands still; see its logs")
            time.sleep(POLL)
        return True

    def end(self, victim: int | None = None, how: int = signal.SIGKILL) -> float:
        """Kills one process, or all; returns the seconds until the last has ended."""
        began = time.monotonic()
        for index, process in enumerate(self.processes):
            if victim in (None, index):
                process.send_signal(how)
        self.wait()
        return time.monotonic() - began

    def wait(self) -> list[int]:
        """Exit codes, when all have ended."""
        return [process.wait(PATIENCE) for process in self.processes]
