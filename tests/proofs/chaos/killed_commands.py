"""Exports and reports that are killed while they write, and drivers of sweeps."""

import contextlib
import json
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from launch import cli, report, sweep
from launch.commands import export
from research.contract.errors import UserError
from tests.proofs.chaos.killed_runs import run_to_end
from tests.proofs.chaos.run_process import (
    POLL_INTERVAL_S,
    ForkedProcess,
    Run,
    call_in_fork,
)
from tests.testing import fake_sweep

CARD = "README.md"
"""A file of an export that tells when the run was trained."""

PAUSE_S = 2.0
SWEEP = """
def sweep(scale):
    for seed in range(2):
        yield "experiments/mlm.py", {"seed": seed}
"""


class Written(NamedTuple):
    """A command that is killed while it writes."""

    module: ModuleType
    flags: list[str]
    folder: Path  # in which it writes
    prepare: Callable[[], None]  # makes the folder as it was before
    appears_at_once: bool  # all of its files together

    def start(self) -> ForkedProcess:
        return ForkedProcess(self.module, self.flags, self.log)

    @property
    def log(self) -> Path:
        return self.folder.with_name(f"{self.folder.name}.log")

    def finish(self) -> float:
        """Runs the command to its end; returns the seconds.

        Raises:
          UserError: it fails.
        """
        began = time.monotonic()
        if code := self.start().wait():
            raise UserError(f"{self.flags} ended with {code}; see {self.log}")
        return time.monotonic() - began

    def content(self) -> dict[str, bytes]:
        """Path -> content, of all files of the folder but cards, and but empty ones
        that a writer has made beside its target: a later one deletes them."""
        files = (p for p in self.folder.rglob("*") if p.is_file() and p.name != CARD)
        found = {str(p.relative_to(self.folder)): p.read_bytes() for p in files}
        return {p: c for p, c in found.items() if c or Path(p).name[0] != "."}

    def sizes(self) -> dict[str, int]:
        """Path -> size, of all that is in the folder."""
        found = {}
        for path in self.folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # it has just been renamed
                found[str(path)] = path.stat().st_size if path.is_file() else 0
        return found


def kill_writer(written: Written, times: int, rng: random.Random) -> str:
    """Kills a command that many times, half of them while it writes.

    What then has the final name is whole, and the next one leaves what one leaves that
    was not killed, and nothing beside it.

    Raises:
      UserError: something half written has the final name, or is left beside it.
    """
    name, half_written = written.module.__name__, 0
    written.prepare()
    before, seconds = written.content(), written.finish()
    expected = written.content()
    for _ in range(times):
        written.prepare()
        old, process, began = written.sizes(), written.start(), time.monotonic()
        while_it_writes, moment = rng.random() < 0.5, rng.random() * seconds
        while process.poll() is None:
            if while_it_writes and written.sizes() != old:
                time.sleep(rng.random() * seconds / 20)
                break
            if not while_it_writes and time.monotonic() - began > moment:
                break
            time.sleep(POLL_INTERVAL_S / 10)
        process.send_signal(signal.SIGKILL)
        process.wait()
        after = written.content()
        half_written += after not in (before, expected)
        hidden = {p for p in after if any(part[0] == "." for part in Path(p).parts)}
        final = {path: after[path] for path in after.keys() - hidden}
        wrong = [
            p for p, c in final.items() if c not in (expected.get(p), before.get(p))
        ]
        if wrong or (written.appears_at_once and final not in (before, expected)):
            raise UserError(f"{name}: {wrong or final.keys()} half written")
        if after != expected:
            written.finish()
        if (last := written.content()) != expected:
            paths = {p for p in last | expected if last.get(p) != expected.get(p)}
            raise UserError(f"{name}: after a kill {sorted(paths)} differ")
    return f"{name}: killed {times} times, {half_written} of them while it wrote"


def exported(folder: Path, keys: Mapping[str, Any]) -> Written:
    """An export of all checkpoints of a run."""
    keys = {**keys, "train.steps": 20, "train.eval_every": 0}
    keys |= {"train.checkpoint_every": 5, "data.cache_dir": folder / "cache"}
    flags = [f"--config.{key}={value}" for key, value in keys.items()]
    run = Run(folder / "run", ["--config=experiments/gpt2.py:tiny", *flags])
    run_to_end(run)
    to = folder / "exports" / "to"

    def prepare() -> None:
        shutil.rmtree(to, ignore_errors=True)  # what is hidden beside it stays
        to.parent.mkdir(exist_ok=True)

    flags = [f"--workdir={run.workdir}", "--all", f"--to={to}"]
    return Written(export, flags, to.parent, prepare, appears_at_once=True)


def reported(folder: Path) -> Written:
    """A report of a sweep with made-up results, instead of an earlier one."""
    workdir = folder / "reported"
    workdir.mkdir()
    call_in_fork(fake_sweep.finished, workdir)
    names = ["report.md", "report.html", "numbers.csv", "curve-1.svg", "bars-1.svg"]

    def prepare() -> None:
        for name in names:
            (workdir / name).write_bytes(b"an earlier report")

    flags = [f"--workdir={workdir}", f"--table={fake_sweep.__file__}"]
    return Written(report, flags, workdir, prepare, appears_at_once=False)


class DisturbedSweep(NamedTuple):
    """A sweep whose driver is started again and again."""

    workdir: Path
    flags: list[str]

    def start(self) -> ForkedProcess:
        log = self.workdir.with_name(f"{self.workdir.name}.log")
        return ForkedProcess(sweep, [f"--workdir={self.workdir}", *self.flags], log)

    def results(self) -> dict[str, Any]:
        """Trial -> the metrics of its result."""
        files = sorted(self.workdir.glob("*/result.json"))
        return {f.parent.name: json.loads(f.read_bytes())["metrics"] for f in files}

    def trial_processes(self) -> list[str]:
        """The command lines of processes that name the folder of a trial."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has ended
                text = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if f"{self.workdir}/" in text:
                    found.append(text)
        return found

    def disturb(self, fault: str, moment: float) -> int:
        """Starts the driver, does a fault to it, and returns its exit code.

        Args:
          fault: the name of a signal; a driver that is stopped goes on.
          moment: seconds after the start; a driver that ends before has no fault.

        Raises:
          UserError: it is asked to end, and leaves a process behind.
        """
        driver, began = self.start(), time.monotonic()
        while driver.poll() is None and time.monotonic() - began < moment:
            time.sleep(POLL_INTERVAL_S)
        driver.send_signal(getattr(signal, fault))
        if fault == "SIGSTOP":
            time.sleep(PAUSE_S)
            driver.send_signal(signal.SIGCONT)
        code = driver.wait()
        if fault == "SIGTERM" and code:
            deadline = time.monotonic() + 60
            while (left := self.trial_processes()) and time.monotonic() < deadline:
                time.sleep(0.1)
            if left or code not in (cli.PREEMPTED, cli.INTERRUPTED, -signal.SIGTERM):
                raise UserError(f"{self.workdir}: SIGTERM: code {code}, leaves {left}")
        return code


def disturb_sweeps(
    folder: Path, keys: Mapping[str, Any], num_sweeps: int, rng: random.Random
) -> str:
    """Disturbs the drivers of sweeps, each until it ends.

    Raises:
      UserError: a sweep has other results than one that is left alone, or no end.
    """
    file = folder / "sweep.py"
    file.write_text(SWEEP)
    flags = [f"--sweep={file}", "--parallel=2", "--preemptions=1000"]
    keys = {**keys, "data.cache_dir": folder / "cache"}
    flags += [f"--config.{key}={value}" for key, value in keys.items()]
    alone, began = DisturbedSweep(folder / "alone", flags), time.monotonic()
    if code := alone.start().wait():
        raise UserError(f"{alone.workdir} ended with {code}; see its log")
    seconds, faults = time.monotonic() - began, Counter[str]()
    for number in range(num_sweeps):
        disturbed = DisturbedSweep(folder / f"sweep{number}", flags)
        code = None
        while code != cli.DONE:
            fault = rng.choice(("SIGSTOP", "SIGTERM", "SIGKILL"))
            code = disturbed.disturb(fault, rng.uniform(0.1, 0.8) * seconds)
            faults[fault] += code != cli.DONE or fault == "SIGSTOP"
            if faults.total() > 50 * num_sweeps:
                raise UserError(f"{disturbed.workdir} does not end; see its log")
        if (results := disturbed.results()) != alone.results():
            raise UserError(f"{disturbed.workdir}: {results}, not {alone.results()}")
    counts = ", ".join(f"{fault} {count}" for fault, count in sorted(faults.items()))
    return f"drivers of {num_sweeps} sweeps: {counts}; the results are the same"
