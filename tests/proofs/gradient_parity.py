"""One gradient: prints what the same batches teach on other devices and in other parts.

    python -m tests.proofs.gradient_parity [--objectives=lm,mlm] [--steps=50]

For each objective (its experiment at size tiny, with the keys of `tests.proofs.parallelism_cases.SAME`, on
text that is made up here) the real train step runs under every way of WAYS: meshes,
micro-batches, processes. A cell shows two differences from one device: that of the
first gradient, over its largest entry (read off AdamW's first moment, from parameters
with noise added, so that none is zero), and the largest of a loss, relative, over all
steps. Any above 1e-5 is an error.
"""

import argparse
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from launch import cli
from launch.cli import Parser, main
from launch.config import from_file, module_at
from research import objectives
from research.errors import UserError, unknown
from tests.proofs.parallelism_cases import ALONE, WAYS, Way, work

MEMORY = "transformer_xl"
"""An experiment that carries a memory from step to step."""

TOLERANCE = 1e-5
COLUMN = 16

WORDS = ("The", "a", "old", "small", "river", "stone", "reads", "sees", "and", "by")
RARE = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "lmnrst"]
"""Words enough to fill a vocabulary of any kind."""

XLA = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
"""Compiles in half the time; the programs are run for moments."""


def experiments(names: Sequence[str]) -> dict[str, str]:
    """An experiment for each name: the file of that name, or one with this objective.

    Args:
      names: of objectives or experiments; if empty, all objectives and MEMORY.

    Raises:
      UserError: there is no such objective or experiment.
    """
    files = {path.stem: path for path in sorted(Path("experiments").glob("[!_]*.py"))}
    having: dict[str, Path] = {}
    for path in files.values():
        having.setdefault(from_file(str(path)).objective.name, path)
    known = objectives.names()
    chosen = {}
    for name in names or [*known, MEMORY]:
        if name not in files and name not in known:
            raise unknown("objective", name, [*known, *files])
        path = files.get(name, having.get(name, files["base"]))
        size = ":tiny" if "tiny" in getattr(module_at(str(path)), "SIZES", ()) else ""
        chosen[name] = f"{path}{size}"
    return chosen


def text(folder: Path) -> dict[str, str]:
    """Documents of two paragraphs, labels and a lexicon: what any objective reads."""
    draw = random.Random(0)

    def sentence() -> str:
        words = draw.choices(WORDS, k=draw.randint(2, 6)) + draw.choices(RARE, k=2)
        return " ".join(draw.sample(words, len(words))) + "."

    def document() -> str:
        return "\n".join(" ".join(sentence() for _ in range(4)) for _ in range(2))

    lines = [{"text": document(), "label": draw.choice("abc")} for _ in range(400)]
    corpus, lexicon = folder / "text.jsonl", folder / "lexicon.tsv"
    corpus.write_text("\n".join(map(json.dumps, lines)))
    kinds = ("word", "phrase", "entity", "connective")
    entries = [f"{word}\t{kinds[n % 4]}" for n, word in enumerate(WORDS)]
    lexicon.write_text("\n".join(entries))
    cache = str(folder / "cache")
    return {"corpus": str(corpus), "lexicon": str(lexicon), "cache_dir": cache}


def start(folder: Path, plan: dict[str, Any], way: Way) -> list[subprocess.Popen]:
    """The processes that measure the plan's ways, all of which are like this one."""
    with socket.create_server(("localhost", 0)) as server:
        coordinator = f"localhost:{server.getsockname()[1]}"
    plan = plan | {"coordinator": coordinator, "processes": way.processes}
    count = f"--xla_force_host_platform_device_count={way.devices}"
    environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{XLA} {count}"}
    flags = [f"--workdir={folder}", f"--plan={json.dumps(plan)}"]
    return [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.proofs.gradient_parity",
                *flags,
                f"--process={index}",
            ],
            env={**os.environ, **environment},
        )
        for index in range(way.processes)
    ]


def differences(folder: Path, objective: str, way: str) -> tuple[float, float] | None:
    """Of the gradient and of the losses, from those of one device; None: refused."""
    if (folder / f"{objective}.{way}.txt").exists():
        return None
    alone, other = (
        dict(np.load(folder / f"{objective}.{name}.npz")) for name in (ALONE, way)
    )
    losses, others = alone.pop("losses"), other.pop("losses")
    largest = max(np.abs(leaf).max() for leaf in alone.values())
    worst = np.max([np.abs(alone[name] - other[name]).max() for name in alone])
    return worst / largest, np.max(np.abs(losses - others) / np.abs(losses))


def run(args) -> int:
    """Prints the table; fails if a difference is larger than rounding explains."""
    folder = Path(args.workdir) if args.workdir else Path(tempfile.mkdtemp())
    if args.plan:
        work(folder, json.loads(args.plan), args.process)
        return cli.DONE
    folder.mkdir(parents=True, exist_ok=True)
    chosen = experiments([name for name in args.objectives.split(",") if name])
    wanted = [name for name in args.ways.split(",") if name] or list(WAYS)
    for name in wanted:
        if name not in WAYS:
            raise unknown("way", name, WAYS)
    plan = {"experiments": chosen, "text": text(folder), "steps": args.steps}
    alike: dict[Way, list[str]] = {}
    for name in dict.fromkeys([ALONE, *wanted]):
        way = Way(WAYS[name].processes, WAYS[name].devices)
        alike.setdefault(way, []).append(name)
    for way, names in alike.items():
        processes = start(folder, plan | {"ways": names}, way)
        if any([process.wait() for process in processes]):
            raise UserError(f"{', '.join(names)}: a process failed, see above")
    wanted = [name for name in wanted if name != ALONE]
    return table(folder, list(chosen), wanted)


def table(folder: Path, names: Sequence[str], ways: Sequence[str]) -> int:
    """Prints a row for each objective; its exit code."""
    code = cli.DONE
    print(" | ".join(["objective".ljust(COLUMN), *(way.ljust(COLUMN) for way in ways)]))
    for name in names:
        cells = []
        for way in ways:
            found = differences(folder, name, way)
            if found and not all(value <= TOLERANCE for value in found):
                code = cli.FAILED
            cells.append(f"{found[0]:.0e}, {found[1]:.0e}" if found else "refused")
        print(" | ".join(cell.ljust(COLUMN) for cell in [name, *cells]), flush=True)
    return code


def parser() -> Parser:
    parser = Parser(__doc__, overrides=False)
    parser.add_argument("--objectives", default="", help="lm,mlm,...; all if not given")
    parser.add_argument("--ways", default="", help=f"of: {', '.join(WAYS)}")
    parser.add_argument("--steps", type=int, default=50, help="of the losses")
    parser.add_argument("--workdir", help="keeps what was measured")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main(run, parser())
