"""Generates the tables of docs/performance.md: tiles and memory of attention.

make performance

Tiles are counted on batches that the objectives make of random text; memory is what
XLA's compiler for TPUs allots to attention and its gradients, without a TPU.
"""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).with_name("performance.md")
LENGTHS = (512, 2048, 8192)
TILES = (128, 512)
OBJECTIVES = {
    "lm": ("lm", {}),
    "lm, documents apart": ("lm", {"documents": "apart"}),
    "lm, random prefix": ("lm", {"prefix": "random"}),
    "mlm, electra": ("mlm", {}),
    "plm": ("plm", {}),
    "unilm": ("unilm", {}),
    "dae": ("dae", {}),
    "bart": ("bart", {}),
    "mass": ("mass", {}),
}
ROWS, SEPARATORS, SENTINELS = 4, 1 / 400, 4000  # documents of 400 tokens, in the mean

TOPOLOGIES = ("v5e:2x2", "v4:2x2x1", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")

TILES_HEADER = (
    "| | length | visible, % | tiles of 128, % | tiles of 512, % |\n"
    "|---|--:|--:|--:|--:|\n"
)
MEMORY_HEADER = (
    "| chip | pattern | length | interval, MiB | dense, MiB |\n|---|---|--:|--:|--:|\n"
)


def main() -> None:
    write(TILES_HEADER, [row for label in OBJECTIVES for row in tile_rows(label)])
    write(MEMORY_HEADER, [row for name in TOPOLOGIES for row in memory_rows(name)])


def write(header: str, rows: list[str]) -> None:
    """Replaces the table with this header."""
    table = re.escape(header) + r"(\|.*\n)*"
    page = PAGE.read_text()
    PAGE.write_text(re.sub(table, lambda _: header + "".join(rows), page))


def tile_rows(label: str):
    """The rows of one objective, a group of arrays at a length each."""
    from tests.testing.example_batches import keys, vocab
    from tests.testing.objective_cases import input_groups, make_example, make_objective

    objective = make_objective(*OBJECTIVES[label])
    vocabulary = vocab(size=2 * SENTINELS, sentinels=SENTINELS)
    for length in LENGTHS:
        example = make_example(
            objective,
            length,
            [objective.text_spec(length).length] * ROWS,
            separators=SEPARATORS,
            vocabulary=vocabulary,
        )
        batch = objective.corrupt(example, keys(ROWS), vocabulary, length)
        for prefix, (group, pattern) in input_groups(objective, batch).items():
            side = f" {prefix.rstrip('_')}" if prefix else ""
            visible, *touched = tile_fractions(group, pattern)
            cells = [f"{100 * fraction:.0f}" for fraction in (visible, *touched)]
            yield f"| {label}{side} | {length} | {' | '.join(cells)} |\n"


def tile_fractions(group, pattern: str) -> list[float]:
    """The fraction of pairs that attend, and of tiles that are computed, by size."""
    import numpy as np

    from research.batch import NEVER, attention_mask
    from research.kernels.intervals import run_intervals, sorted_intervals
    from research.kernels.plan import Tiles, make_plan

    num_queries = group["rank"].shape[1]
    num_keys = np.flatnonzero((group["rank"] != NEVER).any(axis=0))[-1] + 1
    key = {name: array[:, :num_keys] for name, array in group.items()}
    if pattern == "general":
        queries = group["segment"], group["reach"]
        intervals = sorted_intervals(*queries, key["segment"], key["rank"])
    else:
        num_keys = num_queries
        intervals = run_intervals(group["segment"], causal=pattern == "causal")
    fractions = [float(attention_mask(group)[:, :, :num_keys].mean())]
    for tile in TILES:
        bounds = make_plan(intervals, int(num_keys), Tiles(tile, tile)).bounds
        touched = int(np.sum(np.array(bounds.stop - bounds.start)))
        all_tiles = ROWS * -(-num_queries // tile) * -(-num_keys // tile)
        fractions.append(touched / all_tiles)
    return fractions


def memory_rows(topology: str):
    """The rows of one chip; its compilations have a process of their own."""
    command = [sys.executable, "-m", "docs.attention_memory", topology]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        print(topology, line.strip(), file=sys.stderr, flush=True)
        yield f"| {topology.split(':')[0]} | {line.strip()} |\n"
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)


if __name__ == "__main__":
    main()
