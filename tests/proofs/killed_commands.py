"""Exports, smaller runs and reports that are killed, and drivers of sweeps that get
signals.

    python -m tests.proofs.killed_commands --workdir=runs/killed --times=20 --sweeps=6

An export, palimpsest shrink and a report are killed (SIGKILL) at a random moment, half
of the times while they write. What then has the final name is whole, and the next one
leaves what one leaves that was not killed, and nothing beside it. The driver of a sweep
is stopped and goes on (SIGSTOP, SIGCONT), is asked to end (SIGTERM), is killed, or its
clock is set back by a day; the sweep is then run again until it ends, and its results
are those of an uninterrupted one. A driver that ends by SIGTERM leaves no process
behind.
"""

import contextlib
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from etils import epath

from launch import cli, report
from launch.cli import Parser, main
from launch.commands import export, shrink
from research.checkpoints.checkpoint import FOLDER
from research.config.identity import CONFIG_FILE
from research.contract.errors import UserError
from research.files.checksums import find_damage
from tests.proofs import clock
from tests.proofs.fault_injection import SMALL
from tests.proofs.run_process import (
    POLL_INTERVAL_S,
    RUN_TIMEOUT_S,
    ForkedProcess,
    Run,
)
from tests.testing import fake_sweep

CARD = "README.md"
"""A file of an export that tells when the run was trained."""

END_OF_PAGE = b"</html>\n"
OLD = b"an earlier report"
SWEEP = """
from tests.proofs.fault_injection import SMALL

def sweep(scale):
    for seed in range(3):
        yield "experiments/mlm.py", SMALL | {"train.steps": 60, "seed": seed}
"""
DRIVER_FAULTS = ("SIGSTOP", "SIGTERM", "SIGKILL", "clock")
PAUSE_S = 2.0


class Written(NamedTuple):
    """A command whose output is killed."""

    module: ModuleType
    flags: list[str]
    folder: Path  # in which it writes
    prepare: Callable[[], None]  # makes the folder as it was before
    at_once: bool  # whether all files appear together
    read: Callable[[Path], dict[str, bytes]]  # what is in the folder, to be compared


def tree(folder: Path) -> dict[str, bytes]:
    """Path -> content, of all files of a folder but cards, and but empty ones that a
    writer has made beside its target: the next one after a minute deletes them."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != CARD)
    found = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    return {p: c for p, c in found.items() if c or Path(p).name[0] != "."}


def shrunk_tree(folder: Path) -> dict[str, bytes]:
    """Path -> content, of runs that palimpsest shrink has made; of files that have
    times, and of checkpoints, whose files have random names, whether they are whole."""
    found = {}
    for path, content in tree(folder).items():
        name, file = Path(path), folder / path
        if any(part[0] == "." for part in name.parts):
            found[path] = content
        elif FOLDER in name.parts:
            step = name.parts.index(FOLDER) + 2
            damage = find_damage(epath.Path(folder).joinpath(*name.parts[:step]))
            found[str(Path(*name.parts[:step]))] = damage.encode()
        elif name.suffix == ".json" and file.name != CONFIG_FILE:
            found[path] = b",".join(key.encode() for key in json.loads(content))
        elif name.suffix == ".html":
            found[path] = content[-len(END_OF_PAGE) :]
        else:
            found[path] = content
    return found


def sizes(folder: Path) -> dict[str, int]:
    """Path -> size, of all that is in a folder."""
    found = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # it has just been renamed
            found[str(path)] = path.stat().st_size if path.is_file() else 0
    return found


def start(written: Written, log: Path) -> ForkedProcess:
    with log.open("ab") as file:
        environment = {"JAX_PLATFORMS": "cpu"}
        return ForkedProcess(written.module, written.flags, environment, file.fileno())


def finish(written: Written, log: Path) -> float:
    """Runs the command to its end; returns the seconds.

    Raises:
      UserError: it fails.
    """
    began = time.monotonic()
    if code := start(written, log).wait(RUN_TIMEOUT_S):
        raise UserError(f"{written.flags} ended with {code}; see {log}")
    return time.monotonic() - began


def kill_writers(
    name: str, written: Written, log: Path, times: int, rng: random.Random
) -> str:
    """Kills a command that many times; returns a line that says what was found.

    Raises:
      UserError: something half written has the final name, or is left beside it.
    """
    written.prepare()
    before = written.read(written.folder)
    finish(written, log)  # the first one imports and compiles
    written.prepare()
    seconds = finish(written, log)
    expected, found = written.read(written.folder), Counter()
    while found.total() < times:
        written.prepare()
        old = sizes(written.folder)
        process, began = start(written, log), time.monotonic()
        writes = rng.random() < 0.5
        moment = rng.random() * seconds
        while process.poll() is None:
            if writes and sizes(written.folder) != old:
                time.sleep(rng.random() * seconds / 20)
                break
            if not writes and time.monotonic() - began > moment:
                break
            time.sleep(POLL_INTERVAL_S / 10)
        process.send_signal(signal.SIGKILL)
        has_ended = process.wait(RUN_TIMEOUT_S) == 0
        after = written.read(written.folder)
        if not has_ended:
            partial = after not in (before, expected)
            found["while it wrote" if partial else "before or after"] += 1
        hidden = {path for path in after if any(p[0] == "." for p in Path(path).parts)}
        final = {path: after[path] for path in after.keys() - hidden}
        wrong = [
            p for p, c in final.items() if c not in (expected.get(p), before.get(p))
        ]
        if wrong or (written.at_once and final not in (before, expected)):
            raise UserError(f"{name}: {wrong or final.keys()} half written; see {log}")
        if after != expected:
            finish(written, log)
        if (last := written.read(written.folder)) != expected:
            paths = {p for p in last | expected if last.get(p) != expected.get(p)}
            raise UserError(f"{name}: after a kill {sorted(paths)} differ; see {log}")
    counts = ", ".join(f"{where} {count}" for where, count in sorted(found.items()))
    return f"{name}: killed {found.total()} times ({counts}), nothing half written"


def trained(folder: Path) -> Path:
    """The workdir of a run with four checkpoints, trained when it is first read."""
    keys = SMALL | {"train.steps": 20, "train.keep_checkpoints": 4}
    keys |= {"train.checkpoint_every": 5, "data.cache_dir": folder / "cache"}
    keys |= {"model.width": 256, "model.feedforward": 1024, "train.batch": 4}
    flags = [f"--config.{key}={value}" for key, value in keys.items()]
    run = Run(folder / "run", ["--config=experiments/gpt2.py:tiny", *flags], fork=True)
    if not run.workdir.exists() and any(run.start().wait()):
        raise UserError(f"{run.workdir} failed; see its log0.txt")
    return run.workdir


def exported(folder: Path) -> Written:
    """An export of all checkpoints of a run."""
    own = [f"--workdir={trained(folder)}", "--all"]
    return _new_folder(export, own, folder / "exports" / "to", tree)


def shrunk(folder: Path) -> Written:
    """A run with the integers of another one."""
    own = [f"--workdir={trained(folder)}", "--recipe=int8"]
    return _new_folder(shrink, own, folder / "shrunk" / "to", shrunk_tree)


def _new_folder(
    module: ModuleType, flags: list[str], to: Path, read: Callable
) -> Written:
    def prepare() -> None:
        shutil.rmtree(to, ignore_errors=True)  # what is hidden beside it stays
        to.parent.mkdir(exist_ok=True)

    return Written(module, [*flags, f"--to={to}"], to.parent, prepare, True, read)


def reported(folder: Path) -> Written:
    """A report of a sweep with made-up results, in place of an earlier one."""
    workdir = folder / "reported"
    workdir.mkdir()
    code = "import pathlib, sys; from tests.testing import fake_sweep; "
    code += "fake_sweep.finished(pathlib.Path(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", code, str(workdir)], check=True)
    names = ["report.md", "report.html", "numbers.csv", "curve-1.svg", "bars-1.svg"]

    def prepare() -> None:
        for name in names:
            (workdir / name).write_bytes(OLD)

    flags = [f"--workdir={workdir}", f"--table={fake_sweep.__file__}"]
    return Written(report, flags, workdir, prepare, False, tree)


class Sweep(NamedTuple):
    """A sweep that is started again and again."""

    file: Path
    workdir: Path

    @property
    def clock_file(self) -> Path:
        return self.workdir.with_name(f"{self.workdir.name}-yesterday")

    def start(self) -> subprocess.Popen:
        site = self.workdir.with_name("site")
        environment = {"JAX_PLATFORMS": "cpu"} | clock.environment(
            site, self.clock_file
        )
        flags = [f"--sweep={self.file}", f"--workdir={self.workdir}", "--parallel=2"]
        flags += ["--preemptions=1000", f"--config.data.cache_dir={self.file.parent}/c"]
        log = self.workdir.with_name(f"{self.workdir.name}.log")
        with log.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "launch.sweep", *flags],
                env=os.environ | environment,
                stdout=output,
                stderr=output,
            )

    def results(self) -> dict[str, Any]:
        """Trial -> the metrics of its result."""
        files = sorted(self.workdir.glob("*/result.json"))
        return {f.parent.name: json.loads(f.read_bytes())["metrics"] for f in files}

    def processes(self) -> list[str]:
        """The command lines of processes that name the workdir, but for drivers."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:  # it has ended
                continue
            text = b" ".join(words).decode(errors="replace")
            if f"{self.workdir}/" in text and "launch.sweep" not in text:
                found.append(text)
        return found


def signal_driver(sweep: Sweep, rng: random.Random, kinds: Counter) -> int | None:
    """Starts a sweep's driver and does one fault to it; returns its exit code.

    Raises:
      UserError: it is asked to end, and leaves a process behind.
    """
    driver, began = sweep.start(), time.monotonic()
    fault = rng.choice(DRIVER_FAULTS)
    moment = rng.uniform(1, 25)
    while driver.poll() is None and time.monotonic() - began < moment:
        time.sleep(POLL_INTERVAL_S)
    if driver.poll() is not None:
        return driver.returncode
    kinds[fault] += 1
    match fault:
        case "SIGSTOP":
            driver.send_signal(signal.SIGSTOP)
            time.sleep(PAUSE_S)
            driver.send_signal(signal.SIGCONT)
        case "clock":
            clock.turn(sweep.clock_file)
        case _:
            driver.send_signal(getattr(signal, fault))
    code = driver.wait(RUN_TIMEOUT_S)
    if fault == "SIGTERM" and code:
        deadline = time.monotonic() + 60
        while (left := sweep.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        if left or code not in (cli.PREEMPTED, cli.INTERRUPTED, -signal.SIGTERM):
            raise UserError(f"{sweep.workdir}: SIGTERM: code {code}, leaves {left}")
    return code


def signal_drivers(folder: Path, num_sweeps: int, rng: random.Random) -> str:
    """Disturbs that many sweeps, each until it ends; returns a line that says how.

    Raises:
      UserError: a sweep fails, or has other results than an undisturbed one.
    """
    file = folder / "sweep.py"
    file.write_text(SWEEP)
    undisturbed = Sweep(file, folder / "undisturbed")
    if code := undisturbed.start().wait(RUN_TIMEOUT_S):
        raise UserError(f"{undisturbed.workdir} ended with {code}; see its log")
    expected, kinds, starts = undisturbed.results(), Counter(), []
    for number in range(num_sweeps):
        sweep = Sweep(file, folder / f"sweep{number}")
        starts.append(0)
        while signal_driver(sweep, rng, kinds) != cli.DONE:
            starts[-1] += 1
            if starts[-1] > 50:
                raise UserError(f"{sweep.workdir} does not end; see its log")
        if (found := sweep.results()) != expected:
            raise UserError(f"{sweep.workdir}: {found}, not {expected}")
    counts = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    median = statistics.median(starts) + 1
    return (
        f"drivers: {kinds.total()} faults ({counts}) in {num_sweeps} sweeps, median "
        f"{median:g} starts; all results equal those of an undisturbed one"
    )


def run(args) -> None:
    """Prints a line for each kind.

    Raises:
      UserError: something is lost, or the workdir is not empty.
    """
    folder, rng = Path(args.workdir).resolve(), random.Random(args.seed)
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"--workdir={folder} is not empty; give a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    if args.times:
        import launch.reports.figures  # noqa: F401  # once, before the forks
        import research.use.export
        import research.use.shrinking.recipes  # noqa: F401

        kinds = {"export": exported, "shrink": shrunk, "report": reported}
        for name, make in kinds.items():
            log = folder / f"{name}.log"
            line = kill_writers(name, make(folder), log, args.times, rng)
            print(line, flush=True)
    if args.sweeps:
        print(signal_drivers(folder, args.sweeps, rng), flush=True)


def parser() -> Parser:
    parser = Parser(__doc__, overrides=False)
    parser.add_argument("--workdir", required=True, help="a new folder")
    parser.add_argument("--times", type=int, default=20, help="kills of each command")
    parser.add_argument(
        "--sweeps", type=int, default=6, help="whose driver is disturbed"
    )
    parser.add_argument("--seed", type=int, default=0, help="of moments and faults")
    return parser


if __name__ == "__main__":
    main(run, parser())
