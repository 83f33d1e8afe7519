"""Fault injection: a run that is killed many times must equal an uninterrupted one.

    python -m tests.proofs.fault_injection --workdir=runs/chaos --kills=50 \\
        [--processes=2]

The same command is started again and again. It is killed (SIGKILL, of one process) at a
random moment: while it starts, while it makes the vocabulary, the tokens or the index
of a cache of which these were deleted, between steps, while it saves, or while it
evaluates; at times it is asked to stop (SIGTERM), or goes on after a while in which it
was stopped (SIGSTOP) or after its clock was set back by a day, and is killed later.
Then its parameters, optimizer state and metrics.jsonl are compared, bit by bit, with
those of an uninterrupted run. With --devices=8,4,2 a run is also resumed on fewer and
fewer devices and on other meshes: its losses must agree to 1e-5.
"""

import random
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from launch import cli
from launch.cli import Parser, main
from research.contract.errors import UserError
from research.data.progress import progress
from tests.proofs import clock
from tests.proofs.compare_runs import compare
from tests.proofs.run_process import START_TIMEOUT_S, ProcessGroup, Run

SMALL = {
    "data.length": 32,
    "data.vocabulary_size": 512,
    "model.layers": 2,
    "model.width": 32,
    "model.heads": 2,
    "model.feedforward": 64,
    "model.dropout": 0.1,
    "optimizer.warmup_steps": 10,
    "train.batch": 16,
    "train.steps": 240,
    "train.log_every": 6,
    "train.eval_every": 60,
    "train.checkpoint_every": 10,
}
"""A run of seconds that logs, evaluates and saves often."""

FAULTS = {
    "starting": 2,
    "vocabulary": 1,
    "stream": 1,
    "index": 1,
    "stepping": 4,
    "saving": 3,
    "evaluating": 3,
    "sigterm": 1,
    "stopped": 1,
    "clock": 1,
}
"""The moment of a kill -> its relative frequency. The last three are between steps:
SIGTERM, and a kill after the process was stopped, or its clock was set back."""

PAUSE_S = 2.0
"""How long a process is stopped: the others of a run do not take it for dead."""

CATEGORIES = ("vocabulary", "stream", "index")
"""Of the cache, in the order in which they are made, each from those before it."""

MOMENTS: dict[str, Callable[[ProcessGroup], Any]] = {
    "saving": lambda group: group.run.unfinished_checkpoint(),
    "evaluating": lambda group: group.run.is_evaluating(
        SMALL["train.eval_every"], group.start_time
    ),
    **{c: lambda group, c=c: group.run.is_creating(c) for c in CATEGORIES},
}
"""Faults that can be seen from outside -> whether their moment is now."""

MESHES = {
    8: {"data": 2, "fsdp": 2, "tensor": 2},
    4: {"data": 1, "fsdp": 4, "tensor": 1},
    2: {"data": 1, "fsdp": 1, "tensor": 2},
}
TOLERANCE = 1e-5
"""Largest relative difference of losses on other devices."""


class FaultInjector:
    """Kills runs, and compares each with an uninterrupted one.

    Args:
      make_run: the run of a name. The one named "uninterrupted" is not killed.
      rng: draws the moments and the victims.
    """

    def __init__(self, make_run: Callable[[str], Run], rng: random.Random):
        self.make_run, self.rng = make_run, rng
        self.kills: Counter[str] = Counter()  # by fault
        self.num_runs = 0
        self.end_times: list[float] = []  # seconds from a kill to the end of all others
        self.waiting_times: list[float] = []  # of those that had not all connected
        self.other_codes: Counter[int] = Counter()  # exit codes of the others
        self.errors: list[str] = []
        self.reference = make_run("uninterrupted")
        self.start_time, self.run_time, self.longest = run_uninterrupted(self.reference)

    def kill(self, num_kills: int) -> None:
        """Starts and kills runs until there were that many kills; compares each."""
        with progress("kills", num_kills) as report:
            while not self.num_runs or self.kills.total() < num_kills:
                self.num_runs += 1
                run = self.make_run(f"killed{self.num_runs}")
                while (code := self.start_and_kill(run, num_kills)) is None:
                    total = self.kills.total()
                    report(total, f"{total} of {num_kills}")
                if code:
                    self.errors.append(f"{run.workdir} ended with exit code {code}")
                else:
                    self.errors += compare(self.reference.workdir, run.workdir)

    def start_and_kill(self, run: Run, num_kills: int) -> int | None:
        """Starts a run and kills it; returns its exit code if it ended before that."""
        fault = self.rng.choices([*FAULTS], FAULTS.values())[0]
        if fault in CATEGORIES and self.kills.total() < num_kills:
            for category in CATEGORIES[CATEGORIES.index(fault) :]:
                shutil.rmtree(run.cache_dir / category, ignore_errors=True)
        group = run.start()
        if self.kills.total() == num_kills or not self._wait_for(group, fault):
            return max(group.wait(), key=abs)
        victim = self.rng.randrange(run.processes)
        if fault in ("stopped", "clock"):
            if fault == "stopped":
                group.pause(victim, PAUSE_S)
            else:
                clock.turn(run.clock_file)
            moment = group.elapsed() + self.rng.random() * self.run_time / 5
            group.wait_until(lambda: group.elapsed() > moment)
        sigterm = fault == "sigterm"
        if fault in MOMENTS and not MOMENTS[fault](group):  # it is over
            fault = "stepping" if fault in ("saving", "evaluating") else "starting"
        seconds = group.kill(victim, signal.SIGTERM if sigterm else signal.SIGKILL)
        codes = group.wait()
        if not any(codes):
            return 0  # it ended before the signal
        self.kills[fault] += 1
        others = [code for n, code in enumerate(codes) if n != victim or sigterm]
        if run.processes > 1 and not sigterm:
            times = self.end_times if group.has_connected() else self.waiting_times
            times.append(seconds)
            self.other_codes.update(others)
        has_result = (run.workdir / "result.json").exists()
        if set(others) - {cli.PREEMPTED, *([cli.DONE] if has_result else [])}:
            self.errors.append(f"{run.workdir}: {fault}: exit codes {others}, not 75")
        return None

    def _wait_for(self, group: ProcessGroup, fault: str) -> bool:
        """Waits for the moment of a fault; returns False if the run ended before."""
        run, fraction = group.run, self.rng.random()
        first_step = run.last_step()
        if fault == "starting":
            moment = fraction * self.start_time
            return group.wait_until(lambda: group.elapsed() > moment)
        if fault in MOMENTS:
            begins, longest = lambda: MOMENTS[fault](group), self.longest[fault]
        else:
            begins, longest = lambda: run.last_step() > first_step, self.run_time / 5
        if not group.wait_until(begins):
            return False
        moment = group.elapsed() + fraction * longest
        return group.wait_until(lambda: group.elapsed() > moment)

    def summary(self) -> str:
        faults = ", ".join(f"{fault} {count}" for fault, count in self.kills.items())
        lines = [
            f"killed {self.kills.total()} times ({faults}) in {self.num_runs} runs"
        ]
        if self.other_codes:
            codes = sorted(self.other_codes.items())
            counts = ", ".join(f"{code} ({count} times)" for code, count in codes)
            end = max(self.end_times, default=0)
            wait = max(self.waiting_times, default=0)
            lines.append(
                f"the other processes ended within {end:.2f} s of a kill, or within "
                f"{wait:.2f} s of one before all had connected "
                f"(--wait={START_TIMEOUT_S}), with exit code {counts}"
            )
        equal = "parameters, optimizer state and metrics.jsonl bit-equal in all runs"
        return "\n".join([*lines, *(self.errors or [equal])])


def run_uninterrupted(run: Run) -> tuple[float, float, Counter[str]]:
    """Seconds from a run's start to its first metrics, from there to its end, and of
    the longest time that each of MOMENTS took.

    Raises:
      UserError: the run failed.
    """
    began: dict[str, float] = {}
    longest: Counter[str] = Counter()

    def watch() -> bool:
        for name, is_now in MOMENTS.items():
            if is_now(group):
                first = began.setdefault(name, group.elapsed())
                longest[name] = max(longest[name], group.elapsed() - first)
            else:
                began.pop(name, None)
        if "start" not in began and run.last_step():
            began["start"] = group.elapsed()
        return False

    group = run.start()
    group.wait_until(watch)
    if any(group.wait()):
        raise UserError(f"{run.workdir} failed uninterrupted; see its log0.txt")
    return began["start"], group.elapsed() - began["start"], longest


def resume_on_fewer_devices(
    make_run: Callable[..., Run], counts: Sequence[int]
) -> tuple[float, str]:
    """Runs a part of the steps on each number of devices, with a kill after each.

    Returns:
      the largest relative difference of its losses from those of one device, and a line
      that says so.
    """
    reference = make_run("one-device", devices=1)
    moved = make_run("moved", devices=counts[-1])
    run_uninterrupted(reference)
    for number, count in enumerate(counts, start=1):
        mesh = [f"--config.mesh.{axis}={n}" for axis, n in MESHES[count].items()]
        group = moved._replace(devices=count, flags=[*moved.flags, *mesh]).start()
        stop = SMALL["train.steps"] * number / len(counts)
        if number < len(counts) and group.wait_until(
            lambda stop=stop: moved.last_step() >= stop
        ):
            group.kill()
        elif any(group.wait()):
            raise UserError(f"{moved.workdir} failed; see its log0.txt")
    largest = max(
        abs(one[name] - other[name]) / abs(one[name])
        for one, other in zip(reference.lines(), moved.lines(), strict=True)
        for name in one
        if name.endswith("loss")
    )
    path = " -> ".join(f"{count} devices {MESHES[count]}" for count in counts)
    return largest, f"{path}: losses differ by {largest:.1e} from those on one device"


def run(args) -> int:
    """Prints the summary; returns cli.FAILED if anything differs.

    Raises:
      UserError: the workdir is not empty, or an uninterrupted run failed.
    """
    folder = Path(args.workdir).resolve()
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"--workdir={folder} is not empty; give a new folder")
    overrides = {key: str(value) for key, value in SMALL.items()} | args.overrides

    def make_run(name: str, devices: int = 0) -> Run:
        cache = folder / (f"cache-{name}" if args.cold else "cache")
        own = overrides | {"data.cache_dir": str(cache)}
        flags = [f"--config.{key}={value}" for key, value in own.items()]
        return Run(
            folder / name,
            [f"--config={args.config}", *flags],
            processes=1 if devices else args.processes,
            devices=devices,
            fork=args.fork,
            cache_dir=cache,
        )

    injector = FaultInjector(make_run, random.Random(args.seed))
    injector.kill(args.kills)
    print(injector.summary(), flush=True)
    failed = bool(injector.errors)
    if args.devices:
        counts = [int(count) for count in args.devices.split(",")]
        largest, line = resume_on_fewer_devices(make_run, counts)
        print(line)
        failed |= largest > TOLERANCE
    return cli.FAILED if failed else cli.DONE


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--workdir", required=True, help="a new folder for the runs")
    parser.add_argument("--config", default="experiments/mlm.py", help="of the runs")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--processes", type=int, default=1, help="of each run")
    parser.add_argument("--seed", type=int, default=0, help="of moments and victims")
    parser.add_argument(
        "--fork", action="store_true", help="fork the runs: imports are done once"
    )
    parser.add_argument("--devices", default="", help="8,4,2: resume on fewer")
    parser.add_argument(
        "--cold", action="store_true", help="a cache for each run, empty at its start"
    )
    return parser


if __name__ == "__main__":
    main(run, parser())
