"""Generates tables of docs/performance.md: tiles and memory of attention, the loss.

make performance

Tiles are counted on batches that the objectives make of random text; memory and bytes
are those of programs that XLA's compiler for TPUs makes, without a TPU.
"""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
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

TILES_HEADER = (
    "| | length | visible, % | tiles of 128, % | tiles of 512, % |\n"
    "|---|--:|--:|--:|--:|\n"
)
MEMORY_HEADER = (
    "| chip | pattern | interval: 512 | 2048 | 8192 | 32768 "
    "| dense: 512 | 2048 | 8192 | 32768 |\n"
    "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|\n"
)
LOSS_HEADER = (
    "| chip | vocabulary | form | one chip: memory | moved "
    "| four chips: memory | moved | sent |\n|---|--:|---|--:|--:|--:|--:|--:|\n"
)
TOPOLOGIES = ("v5e:2x2", "v4:2x2x1", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")
COMPILED = (
    (MEMORY_HEADER, "experiments.studies.attention_memory", TOPOLOGIES),
    (LOSS_HEADER, "experiments.studies.loss_memory", ("v5e:2x2", "v6e:2x2")),
)
"""Tables of compiled programs: header, the module that prints rows, slices."""


def main() -> None:
    write(TILES_HEADER, [row for label in OBJECTIVES for row in tile_rows(label)])
    for header, module, slices in COMPILED:
        write(header, [row for name in slices for row in compiled_rows(module, name)])


def write(header: str, rows: list[str]) -> None:
    """Replaces the table with this header."""
    table = re.escape(header) + r"(\|.*\n)*"
    page = PAGE.read_text("utf-8")
    PAGE.write_text(re.sub(table, lambda _: header + "".join(rows), page), "utf-8")


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
    import jax
    import jax.numpy as jnp
    import numpy as np

    from research.contract.batch import NEVER
    from research.kernels.intervals import run_intervals, sorted_intervals
    from research.kernels.plan import Tiles, make_plan

    segment, rank, reach = (group[name] for name in ("segment", "rank", "reach"))
    rows, num_queries = segment.shape
    num_keys = num_queries
    if pattern == "general":
        num_keys = int(np.flatnonzero((rank != NEVER).any(axis=0))[-1]) + 1

    @jax.jit
    def count(segment, rank, reach):
        if pattern == "general":
            keys = segment[:, :num_keys], rank[:, :num_keys]
            intervals = sorted_intervals(segment, [(None, reach)], *keys)
        else:
            intervals = run_intervals(segment, causal=pattern == "causal")
        (interval,) = intervals.each
        num_visible = jnp.maximum(interval.stop - interval.start, 0)
        counts = [jnp.mean(num_visible.astype(jnp.float32)) / num_keys]
        for tile in TILES:
            (keys,) = make_plan(intervals, num_keys, Tiles(tile, tile)).bounds.keys
            all_tiles = rows * -(-num_queries // tile) * -(-num_keys // tile)
            counts.append(jnp.sum(keys.stop - keys.start) / all_tiles)
        return counts

    return [float(fraction) for fraction in count(segment, rank, reach)]


def compiled_rows(module: str, topology: str):
    """The rows of one chip; its compilations have a process of their own."""
    command = [sys.executable, "-m", module, topology]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        print(topology, line.strip(), file=sys.stderr, flush=True)
        yield f"| {topology.split(':')[0]} | {line.strip()} |\n"
    if process.wait():
        raise subprocess.CalledProcessError(process.returncode, command)


if __name__ == "__main__":
    main()
