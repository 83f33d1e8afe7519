"""Gradient parity: the same batches give the same gradient under any parallelism.

    python -m tests.proofs.gradient_parity [--objectives=lm,mlm] [--steps=50]

For each objective (its experiment at size tiny, with the OVERRIDES of
`tests.proofs.parallelism_cases`, on generated text) the real train step runs in each of
its CASES: meshes, micro-batches, processes. A cell of the table shows two differences
from one device: that of the first gradient, relative to its largest entry, and the
largest relative difference of a loss over all steps. The gradient is read from AdamW's
first moment, at parameters with added noise, so that none is zero. A difference above
1e-5 is an error.
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
from launch.config import from_file
from launch.user_code import module_at
from research import objectives
from research.config import base
from research.contract.errors import UserError, unknown
from tests.proofs.parallelism_cases import CASES, REFERENCE, Case, work
from tests.testing.compile_flags import FASTEST_COMPILE

RECURRENT = "transformer_xl"
"""An experiment that carries mems from step to step."""

TOLERANCE = 1e-5
COLUMN_WIDTH = 16

WORDS = ("The", "a", "old", "small", "river", "stone", "reads", "sees", "and", "by")
RARE = [a + b + c for a in "bdfgklmnprst" for b in "aeiou" for c in "lmnrst"]
"""Enough words for a vocabulary of any type."""


def experiments(names: Sequence[str]) -> dict[str, str]:
    """The experiment of each name, with its size.

    It is the file of that name, or else the first one that has this objective.

    Args:
      names: of objectives or experiments; if empty, all objectives and RECURRENT.

    Raises:
      UserError: there is no such objective or experiment.
    """
    files = {path.stem: path for path in sorted(Path("experiments").glob("[!_]*.py"))}
    by_objective: dict[str, Path] = {}
    for path in files.values():
        by_objective.setdefault(from_file(str(path)).objective.name, path)
    known = objectives.names()
    chosen = {}
    for name in names or [*known, RECURRENT]:
        if name not in files and name not in known:
            raise unknown("objective", name, [*known, *files])
        path = files.get(name, by_objective.get(name, Path(base.__file__)))
        size = ":tiny" if "tiny" in getattr(module_at(str(path)), "SIZES", ()) else ""
        chosen[name] = f"{path}{size}"
    return chosen


def make_data(folder: Path) -> dict[str, str]:
    """Writes documents of two paragraphs with labels, and a lexicon.

    Returns:
      the keys of the section `data` of a config that reads them.
    """
    rng = random.Random(0)

    def sentence() -> str:
        words = rng.choices(WORDS, k=rng.randint(2, 6)) + rng.choices(RARE, k=2)
        return " ".join(rng.sample(words, len(words))) + "."

    def document() -> str:
        return "\n".join(" ".join(sentence() for _ in range(4)) for _ in range(2))

    lines = [{"text": document(), "label": rng.choice("abc")} for _ in range(400)]
    corpus, lexicon = folder / "text.jsonl", folder / "lexicon.tsv"
    corpus.write_text("\n".join(map(json.dumps, lines)))
    entry_types = ("word", "phrase", "entity", "connective")
    entries = [f"{word}\t{entry_types[n % 4]}" for n, word in enumerate(WORDS)]
    lexicon.write_text("\n".join(entries))
    cache = str(folder / "cache")
    return {"corpus": str(corpus), "lexicon": str(lexicon), "cache_dir": cache}


def start(folder: Path, plan: dict[str, Any], case: Case) -> list[subprocess.Popen]:
    """Starts the processes that measure the plan's cases.

    Args:
      case: any of them, since all have the same number of processes and devices.
    """
    with socket.create_server(("localhost", 0)) as server:
        coordinator = f"localhost:{server.getsockname()[1]}"
    plan = plan | {"coordinator": coordinator, "processes": case.processes}
    count = f"--xla_force_host_platform_device_count={case.devices}"
    environment = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": f"{FASTEST_COMPILE} {count}"}
    command = [sys.executable, "-m", "tests.proofs.gradient_parity"]
    flags = [f"--workdir={folder}", f"--plan={json.dumps(plan)}"]
    return [
        subprocess.Popen(
            [*command, *flags, f"--process={index}"],
            env={**os.environ, **environment},
        )
        for index in range(case.processes)
    ]


def differences(folder: Path, objective: str, case: str) -> tuple[float, float] | None:
    """The differences of the gradient and of the losses from those of one device.

    Returns:
      None if the objective does not support the case.
    """
    if (folder / f"{objective}.{case}.txt").exists():
        return None
    reference, other = (
        dict(np.load(folder / f"{objective}.{name}.npz")) for name in (REFERENCE, case)
    )
    losses, other_losses = reference.pop("losses"), other.pop("losses")
    largest = max(np.abs(grad).max() for grad in reference.values())
    worst = np.max([np.abs(reference[name] - other[name]).max() for name in reference])
    return worst / largest, np.max(np.abs(losses - other_losses) / np.abs(losses))


def run(args) -> int:
    """Prints the table; returns cli.FAILED if a difference is above TOLERANCE."""
    folder = Path(args.workdir) if args.workdir else Path(tempfile.mkdtemp())
    if args.plan:
        work(folder, json.loads(args.plan), args.process)
        return cli.DONE
    folder.mkdir(parents=True, exist_ok=True)
    chosen = experiments([name for name in args.objectives.split(",") if name])
    cases = [name for name in args.cases.split(",") if name] or list(CASES)
    for name in cases:
        if name not in CASES:
            raise unknown("case", name, CASES)
    plan = {"experiments": chosen, "text": make_data(folder), "steps": args.steps}
    groups: dict[Case, list[str]] = {}  # of cases that the same processes can measure
    for name in dict.fromkeys([REFERENCE, *cases]):
        case = Case(CASES[name].processes, CASES[name].devices)
        groups.setdefault(case, []).append(name)
    for case, names in groups.items():
        processes = start(folder, plan | {"cases": names}, case)
        if any([process.wait() for process in processes]):
            raise UserError(f"{', '.join(names)}: a process failed, see above")
    cases = [name for name in cases if name != REFERENCE]
    return print_table(folder, list(chosen), cases)


def print_table(folder: Path, names: Sequence[str], cases: Sequence[str]) -> int:
    """Prints a row for each objective; returns an exit code."""
    code = cli.DONE
    print(" | ".join(word.ljust(COLUMN_WIDTH) for word in ["objective", *cases]))
    for name in names:
        cells = []
        for case in cases:
            found = differences(folder, name, case)
            if found and not all(value <= TOLERANCE for value in found):
                code = cli.FAILED
            cells.append(f"{found[0]:.0e}, {found[1]:.0e}" if found else "refused")
        print(
            " | ".join(cell.ljust(COLUMN_WIDTH) for cell in [name, *cells]), flush=True
        )
    return code


def parser() -> Parser:
    parser = Parser(__doc__, overrides=False)
    parser.add_argument("--objectives", default="", help="lm,mlm,...; all if not given")
    parser.add_argument("--cases", default="", help=f"of: {', '.join(CASES)}")
    parser.add_argument("--steps", type=int, default=50, help="of training")
    parser.add_argument("--workdir", help="keeps the measurements")
    parser.add_argument("--plan", help=argparse.SUPPRESS)
    parser.add_argument("--process", type=int, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main(run, parser())
