"""Commands in forks of this process, which start without the seconds of imports.

This process must not have used JAX, whose threads do not survive a fork.
"""

import atexit
import contextlib
import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from launch import cli, train
from research.checkpoints.checkpoint import FOLDER, TEMPORARY, finished_steps
from research.files.checksums import CHECKSUMS_FILE
from research.record.metric_writer import METRICS_FILE, read_metrics

POLL_INTERVAL_S = 0.005
RUN_TIMEOUT_S = 600.0
CONNECT_TIMEOUT_S = 60
"""How long the processes of a run wait for each other (--wait)."""


class ForkedProcess:
    """A command in a fork of this process.

    Args:
      module: of `launch`.
      log: the file to which its output is appended.
    """

    def __init__(
        self,
        module: ModuleType,
        flags: list[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
    ):
        import research.train  # noqa: F401  # once, before the fork

        self.exit_code: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        try:
            descriptor = os.open(log, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            os.environ.update({"JAX_PLATFORMS": "cpu", **(environment or {})})
            cli.main(module.run, module.parser(), flags)
        except SystemExit as end:
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(end.code or 0)
        except BaseException as error:
            traceback.print_exception(error)
            os._exit(cli.FAILED)

    def poll(self) -> int | None:
        if self.exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self.exit_code

    def wait(self) -> int:
        """The exit code, when it has ended.

        Raises:
          TimeoutError: that is not so within RUN_TIMEOUT_S.
        """
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} has not ended")
            time.sleep(POLL_INTERVAL_S)
        return self.exit_code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


def call_in_fork(function: Callable, *args: Any) -> Any:
    """Calls a function that uses JAX."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(function, args)


class Run(NamedTuple):
    """A run of `palimpsest train`, which may be started several times."""

    workdir: Path
    flags: list[str]  # without the workdir
    processes: int = 1
    devices: int = 0  # simulated ones of each process; 0: what the environment says
    cache_dir: Path | None = None  # data.cache_dir of the flags, to watch it

    def start(self) -> "ProcessGroup":
        """Starts the command: all of its processes."""
        self.workdir.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("localhost", 0)) as server:
            port = server.getsockname()[1]
        processes = [self._start_process(n, port) for n in range(self.processes)]
        return ProcessGroup(self, processes)

    def _start_process(self, index: int, port: int) -> ForkedProcess:
        flags = [*self.flags, f"--workdir={self.workdir}"]
        if self.processes > 1:
            flags += [f"--coordinator=localhost:{port}", f"--process_id={index}"]
            flags += [f"--num_processes={self.processes}"]
            flags += [f"--wait={CONNECT_TIMEOUT_S}"]
        environment = {}
        if self.devices:
            count = f"--xla_force_host_platform_device_count={self.devices}"
            environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {count}"
        return ForkedProcess(train, flags, self.log(index), environment)

    def log(self, index: int = 0) -> Path:
        """The file with the output of a process."""
        return self.workdir / f"log{index}.txt"

    def lines(self) -> list[dict[str, float]]:
        """The complete lines of metrics.jsonl."""
        return read_metrics(self.workdir)

    def last_step(self) -> int:
        """The last step in metrics.jsonl; 0 if there is none."""
        return max((line["step"] for line in self.lines()), default=0)

    def last_checkpoint(self) -> int:
        """The step of the newest finished checkpoint; 0 if there is none."""
        return next(finished_steps(self.workdir / FOLDER), 0)

    def is_evaluating(self, eval_every: int, since: float) -> bool:
        """Whether the last line is the training's, at a step that is to be evaluated.

        since: time.time(); lines that were written before it do not count.
        """
        *_, last = self.lines() or [{"step": 0}]
        due = last["step"] > 0 and last["step"] % eval_every == 0
        metrics = self.workdir / METRICS_FILE
        return due and "train/loss" in last and metrics.stat().st_mtime > since

    def is_caching(self) -> bool:
        """Whether a folder of the cache is incomplete."""
        folders = self.cache_dir.glob("*/*/")
        return any(not (path / CHECKSUMS_FILE).exists() for path in folders)

    def is_saving(self) -> bool:
        """Whether a checkpoint is being written."""
        with contextlib.suppress(FileNotFoundError):
            return any(TEMPORARY in p.name for p in (self.workdir / FOLDER).iterdir())
        return False


class ProcessGroup:
    """The processes of one start of a run."""

    def __init__(self, run: Run, processes: list[ForkedProcess]):
        self.run, self.processes = run, processes
        self.started, self.start_time = time.monotonic(), time.time()

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.started

    def wait_until(self, condition: Callable[[], bool]) -> bool:
        """Waits for a condition; returns False if a process ended before it held.

        Raises:
          RuntimeError: neither happened within RUN_TIMEOUT_S.
        """
        num_polls = 0
        while not condition():
            num_polls += 1
            if any(process.poll() is not None for process in self.processes):
                return False
            # Not the clock: the machine may have been suspended.
            if num_polls * POLL_INTERVAL_S > RUN_TIMEOUT_S:
                self.kill()
                raise RuntimeError(f"{self.run.workdir} does not go on; see its logs")
            time.sleep(POLL_INTERVAL_S)
        return True

    def pause(self, victim: int, seconds: float) -> None:
        """Stops a process, and lets it go on."""
        self.processes[victim].send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.processes[victim].send_signal(signal.SIGCONT)

    def kill(self, victim: int | None = None, number: int = signal.SIGKILL) -> float:
        """Sends a signal to one process, or to all, and waits until all have ended.

        Returns:
          the seconds that this took.
        """
        began = time.monotonic()
        for index, process in enumerate(self.processes):
            if victim in (None, index):
                process.send_signal(number)
        self.wait()
        return time.monotonic() - began

    def wait(self) -> list[int]:
        """The exit codes, when all processes have ended."""
        return [process.wait() for process in self.processes]
