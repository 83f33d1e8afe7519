"""Runs of `launch.train` on this machine that a test starts, watches and kills."""

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
from types import ModuleType
from typing import NamedTuple, Protocol

from launch import cli, train
from research.checkpoints.checkpoint import FOLDER, TEMPORARY, finished_steps
from research.distributed.cluster import NOT_CONNECTED
from research.files.checksums import CHECKSUMS_FILE
from research.record.metric_writer import METRICS_FILE, read_metrics
from tests.proofs import clock

POLL_INTERVAL_S = 0.005
RUN_TIMEOUT_S = 600.0
START_TIMEOUT_S = 60
"""How long the processes of a run wait for each other (--wait)."""


class Run(NamedTuple):
    """A run of `launch.train`, which may be started several times."""

    workdir: Path
    flags: list[str]  # of launch.train, without the workdir
    processes: int = 1
    devices: int = 0  # simulated ones of each process; 0: what the environment says
    fork: bool = False  # whether to fork this process instead of starting Python
    cache_dir: Path | None = None  # data.cache_dir of the flags, to watch it

    def start(self) -> "ProcessGroup":
        """Starts the command: all of its processes."""
        self.workdir.mkdir(parents=True, exist_ok=True)
        with socket.create_server(("localhost", 0)) as server:
            port = server.getsockname()[1]
        processes = [self._start_process(n, port) for n in range(self.processes)]
        return ProcessGroup(self, processes)

    def _start_process(self, index: int, port: int) -> "Process":
        flags = [*self.flags, f"--workdir={self.workdir}"]
        if self.processes > 1:
            flags += [f"--coordinator=localhost:{port}", f"--process_id={index}"]
            flags += [f"--num_processes={self.processes}", f"--wait={START_TIMEOUT_S}"]
        environment = {"JAX_PLATFORMS": "cpu"}
        environment |= clock.environment(self.workdir / "site", self.clock_file)
        if self.devices:
            count = f"--xla_force_host_platform_device_count={self.devices}"
            environment["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {count}"
        with (self.workdir / f"log{index}.txt").open("ab") as log:
            if self.fork:
                return ForkedProcess(train, flags, environment, log.fileno())
            return subprocess.Popen(
                [sys.executable, "-m", "launch.train", *flags],
                env={**os.environ, **environment},
                stdout=log,
                stderr=log,
            )

    @property
    def clock_file(self) -> Path:
        """The file that sets the clock of the run back, see `clock`."""
        return self.workdir / "yesterday"

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

    def is_creating(self, category: str) -> bool:
        """Whether a folder of that category of the cache is incomplete."""
        folders = self.cache_dir.glob(f"{category}/*/")
        return any(not (path / CHECKSUMS_FILE).exists() for path in folders)

    def unfinished_checkpoint(self) -> str:
        """The name of the checkpoint that is being written; "" if none is."""
        with contextlib.suppress(FileNotFoundError):
            for path in (self.workdir / FOLDER).iterdir():
                if TEMPORARY in path.name:
                    return path.name
        return ""


class Process(Protocol):
    """What `ProcessGroup` uses of a process; `subprocess.Popen` has it."""

    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> int: ...
    def send_signal(self, number: int) -> None: ...


class ForkedProcess:
    """A command in a fork of this process, which saves seconds of imports.

    This process must not have used JAX, whose threads do not survive a fork.

    Args:
      module: of `launch`.
      log: descriptor of the file that receives stdout and stderr.
    """

    def __init__(
        self,
        module: ModuleType,
        flags: list[str],
        environment: Mapping[str, str],
        log: int,
    ):
        import research.train  # noqa: F401

        self.exit_code: int | None = None
        self.pid = os.fork()
        if self.pid:
            return
        try:
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.environ.update(environment)
            clock.follow()
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

    def wait(self, timeout: float) -> int:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} has not ended")
            time.sleep(POLL_INTERVAL_S)
        return self.exit_code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)


class ProcessGroup:
    """The processes of one start of a run."""

    def __init__(self, run: Run, processes: list[Process]):
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

    def has_connected(self) -> bool:
        """Whether no process ended because it had waited for another in vain."""
        logs = [self.run.workdir / f"log{n}.txt" for n in range(self.run.processes)]
        endings = [log.read_text(errors="replace").splitlines()[-1:] for log in logs]
        return not any(NOT_CONNECTED in line for lines in endings for line in lines)

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
        return [process.wait(RUN_TIMEOUT_S) for process in self.processes]
