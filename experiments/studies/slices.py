"""Generates the table of docs/pods.md: train steps that are compiled for TPU slices.

make slices

Each row is the output of one `palimpsest compile`.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.proofs import compile_regression

PAGE = Path(__file__).parents[2] / "docs" / "pods.md"
OBJECTIVES = ("lm", "mlm", "plm", "dae", "electra")
FSDP_SIZES = {"v5e:4x4": 4, "v5p:2x2x2": 4, "v6e:16x16": 16}
"""Slice -> size of the mesh axis fsdp."""

LARGEST_MODELS = {
    "T5 large": "experiments/t5.py:large",
    "XLNet large": "experiments/xlnet.py:large",
}
HEADER = (
    "| | slice | mesh | GiB a chip | TFLOP a step | all-gather, MiB | all-reduce "
    "| reduce-scatter | compiled in, s |\n|---|---|---|--:|--:|--:|--:|--:|--:|\n"
)


def main() -> None:
    rows = [row(*case) for case in cases()]
    page = PAGE.read_text("utf-8")
    table = re.escape(HEADER) + r"(\|.*\n)+"
    PAGE.write_text(re.sub(table, lambda _: HEADER + "".join(rows), page), "utf-8")


def cases():
    """Label, topology and flags of every row."""
    for topology, fsdp in FSDP_SIZES.items():
        for name in OBJECTIVES:
            config = ["--config=research/config/base.py:base"]
            objective = f"--config.objective.name={name}"
            yield name, topology, [*config, objective, f"--config.mesh.fsdp={fsdp}"]
    topology, keys = compile_regression.SLICES["large"]
    own = [f"--config.{key}={value}" for key, value in keys.items()]
    for label, config in LARGEST_MODELS.items():
        yield label, topology, [f"--config={config}", *own]


def row(label: str, topology: str, flags: list[str]) -> str:
    """Compiles one step and returns its row of the table."""
    command = [
        sys.executable,
        "-m",
        "launch.commands.compile",
        f"--topology={topology}",
    ]
    print(label, topology, file=sys.stderr, flush=True)
    done = subprocess.run([*command, *flags], check=True, stdout=subprocess.PIPE)
    facts = json.loads(done.stdout)
    mesh = [f"{axis} {n}" for axis, n in facts["mesh"].items() if n > 1]
    peak, hbm = (facts[f"{name}_bytes_per_device"] / 2**30 for name in ("peak", "hbm"))
    recomputed = facts["recomputed_flops_per_step"]
    flops = f"{facts['flops_per_step'] / 1e12:,.0f}"
    collectives = facts["collectives"]
    cells = [label, topology, " x ".join(mesh), f"{peak:.2f} of {hbm:.0f}"]
    cells.append(
        flops + (f" (+ {recomputed / 1e12:,.0f} recomputed)" if recomputed else "")
    )
    for name in ("all-gather", "all-reduce", "reduce-scatter"):
        collective = collectives.get(name, {"count": 0, "bytes": 0})
        count, mib = collective["count"], collective["bytes"] / 2**20
        cells.append(f"{count:,} ({mib:,.0f})")
    cells.append(f"{facts['compile_seconds']:.0f}")
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    main()
