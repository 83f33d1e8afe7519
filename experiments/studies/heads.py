"""Quality by how many attention heads stay, and how they are chosen: a Markdown table.

    python -m experiments.studies.heads \\
        --workdir=runs/a --workdir=runs/b --workdir=runs/c

Each run is a seed; all have one config but for that. A cell is the mean difference from
the network with all its heads, with a 95 % interval over seeds (t, paired). Ways:

- each layer: equally many heads of each, chosen once, as `palimpsest shrink` does;
- a tenth at a time: the least important heads of all layers together, measured anew
  after each tenth, as Michel et al. (2019, section 4.2) remove them.

Importance is by gate or by token (`palimpsest shrink --importance`); by chance is what
both are to beat. A head that is removed has zeros in the output's kernel, which is the
same network as one without it. Nothing is trained.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from etils import epath

from launch import cli
from launch.config import run_config
from research.contract.errors import UserError

KEPT = (0.75, 0.5, 0.25, 1 / 12)
STEP = 0.1
"""The fraction of all heads that is removed between two measurements of importance."""


def by_layer(score_NH: np.ndarray, kept: Sequence[float]) -> Iterator[np.ndarray]:
    """[N, H] bool for each fraction: equally many heads of each layer, the best."""
    from research.use.shrinking.heads import most_important

    for fraction in kept:
        count = max(1, round(fraction * score_NH.shape[1]))
        stay = np.zeros(score_NH.shape, bool)
        np.put_along_axis(stay, most_important(score_NH, count), True, axis=1)
        yield stay


def by_tenths(
    measure: Callable[[np.ndarray], np.ndarray],
    shape: tuple[int, int],
    kept: Sequence[float],
) -> Iterator[np.ndarray]:
    """[N, H] bool for each fraction, which fall: heads of all layers together.

    Args:
      measure: the heads that stay [N, H] -> the importance of each.
    """
    stay = np.ones(shape, bool)
    for fraction in kept:
        target = max(1, round(fraction * stay.size))
        while (left := stay.sum()) > target:
            score = np.where(stay, measure(stay), np.inf)
            gone = min(max(1, round(STEP * stay.size)), left - target)
            stay = stay.copy()
            stay.flat[np.argsort(score, axis=None, kind="stable")[:gone]] = False
        yield stay


def scores(workdir: str, kept: Sequence[float], batches: int) -> tuple[str, dict]:
    """The metric of a run, and its value for "all" and for each way and fraction."""
    import jax

    from research import metrics
    from research.distributed import sharding
    from research.evaluation.evaluate import evaluate
    from research.program.restored import run_params
    from research.program.setup import (
        build_program,
        make_eval_zeros,
        use_compilation_cache,
    )
    from research.use.shrinking import heads

    folder = epath.Path(workdir).expanduser()
    config = run_config(folder, {})
    use_compilation_cache(config.data.cache_dir)
    program = build_program(config)
    network = program.network.options
    heads.check_heads(network, program.abstract_state.params)
    params, _, _ = run_params(
        program,
        folder,
        0,
        seed=config.seed,
        vocabulary=program.data.vocabulary_hash,
    )
    zeros = make_eval_zeros(program)
    shown = metrics.mean_of_scores(program.objective.predicts)
    name = shown.name if shown else "loss"

    def value(stay_NH: np.ndarray) -> float:
        own = jax.device_put(without(params, stay_NH, network.key_width))
        with sharding.context(program.mesh):
            found = evaluate(program, own, zeros(), with_margins=False)
        return found.metrics[name]

    shape = network.layers, network.heads
    everything = np.ones(shape, bool)
    found = {("all", 1.0): value(everything)}
    chance = np.random.default_rng(config.seed).random(shape)
    ways = {"each layer, by chance": by_layer(chance, kept)}
    for definition in heads.DEFINITIONS:
        of_params = heads.make_importance(program, definition, batches)

        def measure(stay_NH: np.ndarray, of_params: Any = of_params) -> np.ndarray:
            return of_params(without(params, stay_NH, network.key_width))

        once = by_layer(measure(everything), kept)
        ways[f"each layer, by {definition}"] = once
        ways[f"a tenth at a time, by {definition}"] = by_tenths(measure, shape, kept)
    for way, choices in ways.items():
        for fraction, stay in zip(kept, choices, strict=True):
            found[way, fraction] = value(stay)
            print(
                f"{workdir}: {way}, {fraction:.0%}: {found[way, fraction]:.4f}",
                file=sys.stderr,
                flush=True,
            )
    return name, found


def without(params: Any, stay_NH: np.ndarray, key_width: int) -> Any:
    """The parameters of a network, on the host, whose other heads write zeros."""
    import jax

    from research.use.shrinking.heads import ATTENTION, replaced

    def mute(own: dict[str, Any]) -> dict[str, Any]:
        kernel = own["out"]["kernel"]
        rows = np.repeat(stay_NH, key_width, axis=1)[:, :, None]
        return own | {"out": own["out"] | {"kernel": np.where(rows, kernel, 0)}}

    return replaced(jax.device_get(params), ATTENTION, mute)


def run(args: argparse.Namespace) -> None:
    from research.evaluation.statistics import estimate

    kept = sorted(args.kept, reverse=True)
    measured = [scores(workdir, kept, args.batches) for workdir in args.workdir]
    if len(names := {name for name, _ in measured}) > 1:
        raise UserError(f"the runs have different metrics: {', '.join(sorted(names))}")
    found = [values for _, values in measured]
    factor = 1 if (name := names.pop()) == "loss" else 100
    everything = estimate([factor * each["all", 1.0] for each in found])
    print(f"{name} with all heads: {everything.mean:.1f}; seeds: {len(found)}\n")
    print("| heads that stay | " + " | ".join(f"{part:.0%}" for part in kept) + " |")
    print("|---|" + "--:|" * len(kept))
    for way in dict.fromkeys(way for way, _ in found[0] if way != "all"):
        cells = []
        for part in kept:
            own = estimate(
                [factor * (each[way, part] - each["all", 1.0]) for each in found]
            )
            margin = f" ± {own.margin:.1f}" if len(found) > 1 else ""
            cells.append(f"{own.mean:+.1f}{margin}")
        print(f"| {way} | {' | '.join(cells)} |")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    help = "folder of a run; given once for each seed"
    parser.add_argument("--workdir", action="append", required=True, help=help)
    help = "fractions of the heads"
    parser.add_argument(
        "--kept",
        type=partial(cli.fraction, zero=False),
        nargs="+",
        default=KEPT,
        help=help,
    )
    help = "of training text to measure importance on"
    parser.add_argument("--batches", type=cli.whole(1), default=8, help=help)
    return parser


if __name__ == "__main__":
    sys.exit(cli.main(run, parser()))
