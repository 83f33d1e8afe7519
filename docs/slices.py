"""Draws the table of docs/pods.md: what real train steps come to on real slices.

make slices

Each row is one `python -m launch.compile`, and nothing in it is typed.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.proofs import compile_regression

PAGE = Path(__file__).with_name("pods.md")
OBJECTIVES = ("lm", "mlm", "plm", "dae", "electra")
SLICES = {"v5e:4x4": 4, "v5p:2x2x2": 4, "v6e:16x16": 16}
"""Each with its mesh's axis fsdp."""

LARGEST = {
    "T5 large": "experiments/t5.py:large",
    "XLNet large": "experiments/xlnet.py:large",
}
HEAD = (
    "| | slice | mesh | GiB a chip | TFLOP a step | all-gather, MiB | all-reduce "
    "| reduce-scatter | compiled in, s |\n|---|---|---|--:|--:|--:|--:|--:|--:|\n"
)


def main() -> None:
    rows = [row(*case) for case in cases()]
    page = PAGE.read_text()
    table = re.escape(HEAD) + r"(\|.*\n)+"
    PAGE.write_text(re.sub(table, lambda _: HEAD + "".join(rows), page))


def cases():
    """Label, slice and flags of every row."""
    for topology, fsdp in SLICES.items():
        for name in OBJECTIVES:
            config = ["--config=experiments/base.py:base"]
            objective = f"--config.objective.name={name}"
            yield name, topology, [*config, objective, f"--config.mesh.fsdp={fsdp}"]
    topology, keys = compile_regression.SLICES["large"]
    own = [f"--config.{key}={value}" for key, value in keys.items()]
    for label, config in LARGEST.items():
        yield label, topology, [f"--config={config}", *own]


def row(label: str, topology: str, flags: list[str]) -> str:
    """One compilation as a line of the table."""
    command = [sys.executable, "-m", "launch.compile", f"--topology={topology}"]
    print(label, topology, file=sys.stderr, flush=True)
    done = subprocess.run([*command, *flags], check=True, stdout=subprocess.PIPE)
    facts = json.loads(done.stdout)
    mesh = [f"{axis} {n}" for axis, n in facts["mesh"].items() if n > 1]
    peak, hbm = (facts[f"{name}_bytes_per_device"] / 2**30 for name in ("peak", "hbm"))
    again = facts["recomputed_flops_per_step"]
    flops = f"{facts['flops_per_step'] / 1e12:,.0f}"
    talk = facts["collectives"]
    cells = [label, topology, " x ".join(mesh), f"{peak:.2f} of {hbm:.0f}"]
    cells.append(flops + (f" (+ {again / 1e12:,.0f} again)" if again else ""))
    for kind in ("all-gather", "all-reduce", "reduce-scatter"):
        one = talk.get(kind, {"count": 0, "bytes": 0})
        cells.append(f"{one['count']:,} ({one['bytes'] / 2**20:,.0f})")
    cells.append(f"{facts['compile_seconds']:.0f}")
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
