"""Kills a small run again and again; it must end as if it had been left alone.

    python -m tests.proofs.fault_injection --workdir=runs/chaos --kills=50 [--processes=2]

Each life of the run is the same command. It is killed (SIGKILL, of one process of all)
at a random moment: while it starts, between steps, in the middle of a save; now and
then it is asked to stop (SIGTERM). Then its parameters, optimizer state and
metrics.jsonl are compared, bit by bit, with those of a run that was left alone. With
--devices=8,4,2 a run also goes on with fewer and fewer devices and on other meshes:
its losses must agree to 1e-5.
"""

import multiprocessing
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from launch import cli
from launch.cli import Parser, main
from research.data.progress import progress
from research.errors import UserError
from tests.proofs.run_process import Life, Run

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
    "train.eval_every": 80,
    "train.checkpoint_every": 10,
}
"""A run of seconds that logs, evaluates and saves all the time."""

KINDS = {"starting": 3, "stepping": 5, "saving": 4, "asked": 1}
"""How a life ends, and how often: the last by SIGTERM, the others by SIGKILL."""

MESHES = {
    8: {"data": 2, "fsdp": 2, "tensor": 2},
    4: {"data": 1, "fsdp": 4, "tensor": 1},
    2: {"data": 1, "fsdp": 1, "tensor": 2},
}
TOLERANCE = 1e-5
"""Of losses on other devices, relative."""


class Chaos:
    """Kills runs, and keeps the score.

    Args:
      run: gives the run of a name; the one named "alone" is left alone.
      draw: of moments and victims.
    """

    def __init__(self, run: Callable[[str], Run], draw: random.Random):
        self.run, self.draw = run, draw
        self.kills: Counter[str] = Counter()
        self.runs = 0
        self.peers: list[float] = []  # seconds until the others had ended
        self.codes: Counter[int] = Counter()  # theirs
        self.wrong: list[str] = []
        self.alone = run("alone")
        self.starting, self.stepping = left_alone(self.alone)

    def kill(self, times: int) -> None:
        """Kills runs until that is enough, and compares each with the first."""
        with progress("kills", times) as report:
            while not self.runs or self.kills.total() < times:
                self.runs += 1
                killed = self.run(f"killed{self.runs}")
                while (code := self.live(killed, times)) is None:
                    report(self.kills.total(), f"{self.kills.total()} of {times}")
                if code:
                    self.wrong.append(f"{killed.workdir} ended with exit code {code}")
                else:
                    self.wrong += compare(self.alone.workdir, killed.workdir)

    def live(self, run: Run, times: int) -> int | None:
        """Begins a run where it stands; its exit code, or None if it was killed."""
        life, kinds = run.begin(), [*KINDS]
        kind = self.draw.choices(kinds, KINDS.values())[0]
        if self.kills.total() == times or not self._comes(life, kind):
            return max(life.wait(), key=abs)
        victim = self.draw.randrange(run.processes)
        asked = kind == "asked"
        seconds = life.end(victim, signal.SIGTERM if asked else signal.SIGKILL)
        codes = life.wait()
        if not any(codes):
            return 0  # it was quicker
        self.kills[kind] += 1
        others = [code for n, code in enumerate(codes) if n != victim or asked]
        if run.processes > 1 and not asked:
            self.peers.append(seconds)
            self.codes.update(others)
        late = (run.workdir / "result.json").exists()
        if set(others) - {cli.PREEMPTED, *([cli.DONE] if late else [])}:
            self.wrong.append(f"{run.workdir}: {kind}: exit codes {others}, not 75")
        return None

    def _comes(self, life: Life, kind: str) -> bool:
        """Waits for the moment of a kill; False if the run ended before."""
        share, before = self.draw.random(), life.run.step()
        if kind == "starting":
            return life.until(lambda: life.age() > share * self.starting)
        begun = life.run.saves if kind == "saving" else lambda: life.run.step() > before
        if not life.until(begun):
            return False
        pause = life.age() + share * (0.1 if kind == "saving" else self.stepping / 5)
        return life.until(lambda: life.age() > pause)

    def score(self) -> str:
        kinds = ", ".join(f"{kind} {count}" for kind, count in self.kills.items())
        lines = [f"killed {self.kills.total()} times ({kinds}) in {self.runs} runs"]
        if self.peers:
            codes = ", ".join(f"{k} ({v} times)" for k, v in sorted(self.codes.items()))
            lines.append(
                f"{max(self.peers):.2f} s after a kill at most all others had ended, "
                f"with exit code {codes}"
            )
        same = "parameters, optimizer state and metrics.jsonl bit-equal in all runs"
        return "\n".join([*lines, *(self.wrong or [same])])


def left_alone(run: Run) -> tuple[float, float]:
    """Seconds until a run's first line, and from there to its end."""
    life = run.begin()
    life.until(run.step)
    started = life.age()
    if any(life.wait()):
        raise UserError(f"{run.workdir}, left alone, failed; see its log0.txt")
    return started, life.age() - started


def compare(alone: Path, killed: Path) -> list[str]:
    """The `differences` of two runs; this process leaves JAX to its forks."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(differences, (alone, killed))


def differences(alone: Path, killed: Path) -> list[str]:
    """What differs, bit by bit, between two runs that have ended."""
    import numpy as np

    wrong = []
    if (alone / "metrics.jsonl").read_text() != (killed / "metrics.jsonl").read_text():
        wrong.append(f"{killed}/metrics.jsonl differs from that of {alone}")
    expected, found = _arrays(alone), _arrays(killed)
    if expected.keys() != found.keys():
        wrong.append(f"{killed} has other arrays than {alone}")
    for name in expected.keys() & found.keys():
        if not np.array_equal(expected[name], found[name], equal_nan=True):
            wrong.append(f"{killed}: {name} differs from that of {alone}")
    return wrong


def _arrays(workdir: Path) -> dict[str, Any]:
    """Everything that the newest checkpoint of a run holds, on the host."""
    import jax

    from research.checkpoints.checkpoint import load_on_host, path_name
    from research.checkpoints.partial_restore import newest_checkpoint

    tree = load_on_host(newest_checkpoint(str(workdir)), "params", "rest")
    return {path_name(path): x for path, x in jax.tree_util.tree_leaves_with_path(tree)}


def moved(run: Callable[..., Run], counts: Sequence[int]) -> tuple[float, str]:
    """Kills a run and goes on with other devices, again and again.

    Returns:
      what its losses differ by from those on one device, relative, and a line.
    """
    alone, last = run("one-device", devices=1), run("moved", devices=counts[-1])
    left_alone(alone)
    for number, count in enumerate(counts, start=1):
        mesh = [f"--config.mesh.{axis}={n}" for axis, n in MESHES[count].items()]
        life = last._replace(devices=count, flags=[*last.flags, *mesh]).begin()
        stop = SMALL["train.steps"] * number / len(counts)
        if number < len(counts) and life.until(lambda stop=stop: last.step() >= stop):
            life.end()
        elif any(life.wait()):
            raise UserError(f"{last.workdir} failed; see its log0.txt")
    worst = max(
        abs(one[name] - other[name]) / abs(one[name])
        for one, other in zip(alone.lines(), last.lines(), strict=True)
        for name in one
        if name.endswith("loss")
    )
    way = " -> ".join(f"{count} devices {MESHES[count]}" for count in counts)
    return worst, f"{way}: losses differ by {worst:.1e} from those on one device"


def run(args) -> int:
    """Prints the score; fails if anything was lost."""
    folder = Path(args.workdir).resolve()
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"--workdir={folder} is not empty; give a new folder")
    settings = {key: str(value) for key, value in SMALL.items()} | args.overrides

    def make(name: str, devices: int = 0) -> Run:
        cache = folder / (f"cache-{name}" if args.cold else "cache")
        own = settings | {"data.cache_dir": str(cache)}
        flags = [f"--config.{key}={value}" for key, value in own.items()]
        return Run(
            folder / name,
            [f"--config={args.config}", *flags],
            processes=1 if devices else args.processes,
            devices=devices,
            fork=args.fork,
        )

    chaos = Chaos(make, random.Random(args.seed))
    chaos.kill(args.kills)
    print(chaos.score(), flush=True)
    wrong = bool(chaos.wrong)
    if args.devices:
        worst, line = moved(make, [int(count) for count in args.devices.split(",")])
        print(line)
        wrong |= worst > TOLERANCE
    return cli.FAILED if wrong else cli.DONE


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--workdir", required=True, help="a new folder for the runs")
    parser.add_argument("--config", default="experiments/mlm.py", help="of the runs")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--processes", type=int, default=1, help="of each run")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument(
        "--fork", action="store_true", help="the commands share their imports"
    )
    parser.add_argument("--devices", default="", help="8,4,2: go on with fewer")
    parser.add_argument(
        "--cold",
        action="store_true",
        help="each run makes its own caches, from nothing",
    )
    return parser


if __name__ == "__main__":
    main(run, parser())
