"""Runs the trials of a sweep that have no result yet.

    python -m launch.sweep --sweep=experiments/sweeps/objectives.py --workdir=runs/mine

A sweep file defines `sweep(scale)`, which yields pairs (experiment, overrides). Where
an override's value is such a pair itself, it stands for that trial's folder, and waits
for it. A --config.KEY=VALUE reaches the trials that do not set KEY themselves.
"""

import argparse
import fcntl
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

import launch
from launch import trials
from launch.trials import Trial
from research.errors import UserError, unknown

HOPELESS = (2, 3)
"""Exit codes of a trial that would only fail again: a mistake, a loss not finite."""

POLL, PAUSE = 0.2, 60.0
"""Seconds between two looks at the running trials, and two lines of a log."""


class Job(Protocol):
    """A trial that an engine has started; a `subprocess.Popen` is one."""

    def poll(self) -> int | None: ...
    def terminate(self) -> None: ...
    def wait(self) -> int: ...


def local(command: list[str], log: Path) -> Job:
    """Starts a command on this machine, with huge pages for its allocations.

    The log is locked for as long as the command lives, even if the sweep does not.

    Raises:
      UserError: another sweep's command still writes this log.
    """
    environment = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"} | os.environ
    with log.open("ab") as output:
        try:
            fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserError(f"{log.parent} is being run by another sweep") from error
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )


ENGINES: dict[str, Callable[[list[str], Path], Job]] = {"local": local}


class Board:
    """Shows a sweep: bars on a terminal, and a line now and then anywhere."""

    def __init__(self, total: int, done: int):
        self.console = Console(stderr=True, soft_wrap=True, highlight=False)
        self.bars = Progress(
            *Progress.get_default_columns()[:2],
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self.sweep = self.bars.add_task("trials", total=total, completed=done)
        self.total, self.done = total, done
        self.tasks, self.since = {}, {}
        self.spoke = time.monotonic()

    def start(self, trial: Trial) -> None:
        self.since[trial] = time.monotonic()
        total = trial.config["train.steps"]
        self.tasks[trial] = self.bars.add_task(f"{trial.name}: steps", total=total)

    def look(self) -> None:
        """Shows how far the running trials are: always, or once in a while in a log."""
        if self.bars.disable and time.monotonic() - self.spoke < PAUSE:
            return
        for trial, task in self.tasks.items():
            step = max((line["step"] for line in trial.metrics), default=0)
            self.bars.update(task, completed=step)
            if self.bars.disable:
                self._say(f"{trial.name}: step {step} of {trial.config['train.steps']}")

    def end(self, trial: Trial, outcome: str) -> None:
        self.bars.remove_task(self.tasks.pop(trial))
        self.done += trial.done
        self.bars.update(self.sweep, completed=self.done)
        seconds = time.monotonic() - self.since[trial]
        self._say(f"{trial.name}: {outcome}, {seconds:.0f} s")

    def _say(self, line: str) -> None:
        self.spoke = time.monotonic()
        self.console.print(f"[{self.done}/{self.total}] {line}", markup=False)


class Runner:
    """Runs trials, parents first; one that crashes is started again, or given up."""

    def __init__(
        self,
        todo: list[Trial],
        start: Callable[[Trial], Job],
        board: Board,
        *,
        parallel: int = 1,  # trials at a time
        retries: int = 0,  # of all trials together
    ):
        self.waiting, self.running = list(todo), {}
        self.start, self.board = start, board
        self.parallel, self.retries = parallel, retries
        self.failed: dict[Trial, str] = {}

    def run(self) -> dict[Trial, str]:
        """Returns the trials that have no result in the end, and why."""
        try:
            while self.waiting or self.running:
                self._begin()
                time.sleep(POLL)
                self.board.look()
                self._collect()
        finally:
            for job in self.running.values():
                job.terminate()
            for job in self.running.values():
                job.wait()
        return self.failed

    def _begin(self) -> None:
        for trial in list(self.waiting):
            lost = [p.name for p in trial.parents.values() if p in self.failed]
            if lost:
                self.waiting.remove(trial)
                self.failed[trial] = f"not run for want of {lost[0]}"
            elif len(self.running) < self.parallel and all(
                parent.done for parent in trial.parents.values()
            ):
                self.waiting.remove(trial)
                self.board.start(trial)
                self.running[trial] = self.start(trial)

    def _collect(self) -> None:
        for trial, job in list(self.running.items()):
            code = job.poll()
            if code is None:
                continue
            del self.running[trial]
            outcome = verdict(trial, code)
            self.board.end(trial, outcome)
            if trial.done:
                continue
            if code not in HOPELESS and self.retries:
                self.retries -= 1
                self.waiting.insert(0, trial)
            else:
                self.failed[trial] = outcome


def verdict(trial: Trial, code: int) -> str:
    """How a trial ended, in half a line."""
    if trial.done:
        metrics, split = trial.result["metrics"], trial.config["data.eval_split"]
        names = [f"{split}/loss", f"{split}/accuracy"]
        shown = [f"{name} {metrics[name]:.3f}" for name in names if name in metrics]
        return ", ".join(shown) or "done"
    last = (log(trial).read_text(errors="replace").split("\n")[-2:] or [""])[0]
    return f"failed with exit code {code} ({last or log(trial)})"


def log(trial: Trial) -> Path:
    return trial.folder / "log.txt"


def run(args: argparse.Namespace) -> int:
    """Plans, shows or runs the sweep of a command line."""
    engine = args.on.partition(":")[0]
    if engine not in ENGINES:
        raise unknown("engine", engine, ENGINES)
    if args.parallel < 1:
        raise UserError(f"--parallel={args.parallel}: at least 1 trial at a time")
    planned = trials.plan(
        args.sweep, args.workdir, scale=args.scale, shared=args.overrides
    )
    if args.dry_run:
        for trial in planned:
            state = "done" if trial.done else "to do"
            print(f"{trial.id}  {state}  {trial.name}")
            print("   ", shlex.join(command(trial)))
        return launch.DONE
    trials.write(planned, args.workdir, sweep=args.sweep, scale=args.scale)

    def start(trial: Trial) -> Job:
        trial.folder.mkdir(parents=True, exist_ok=True)
        return ENGINES[engine](command(trial), log(trial))

    todo = [trial for trial in planned if not trial.done]
    board = Board(len(planned), len(planned) - len(todo))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with board.bars:
        runner = Runner(
            todo, start, board, parallel=args.parallel, retries=args.retries
        )
        failed = runner.run()
    for trial, why in failed.items():
        print(f"error: {trial.name}: {why}; see {log(trial)}", file=sys.stderr)
    print(f"{len(planned) - len(failed)} of {len(planned)} trials have a result")
    return launch.FAILED if failed else launch.DONE


def command(trial: Trial) -> list[str]:
    return [sys.executable, "-m", "launch.train", *trial.arguments]


def parser() -> launch.Parser:
    parser = launch.Parser(__doc__)
    parser.add_argument("--sweep", required=True, help="a file of experiments/sweeps")
    parser.add_argument("--workdir", required=True, help="where the trials' folders go")
    parser.add_argument("--scale", default="smoke", help=" | ".join(trials.SCALES))
    parser.add_argument("--on", default="local", help=" | ".join(ENGINES))
    parser.add_argument("--parallel", type=int, default=1, help="trials at a time")
    parser.add_argument("--retries", type=int, default=3, help="of crashed trials")
    parser.add_argument("--dry_run", action="store_true", help="show the trials alone")
    return parser


if __name__ == "__main__":
    launch.main(run, parser())
