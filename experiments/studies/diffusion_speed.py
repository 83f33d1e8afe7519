"""Prints the cost of a step of masked and block diffusion beside those of lm and mlm.

python -m experiments.studies.diffusion_speed

Steps of a small network alternate in one process. Of each the median CPU time of all
threads, which other work on the machine changes little, and its ratio to lm's; XLA's
count of FLOPs, and its ratio.
"""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax

from launch.config import load_config
from launch.measure.placeholder_vocab import placeholder_vocab
from launch.measure.random_batch import random_batch
from research.distributed import sharding
from research.program.compiled_phases import compile_step
from research.program.setup import build_program, initial_state

ROUNDS = 9
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lm": ("lm", {}),
    "mlm": ("mlm", {}),
    "masked diffusion": ("mdlm", {}),
    "blocks of 4": ("mdlm", {"objective.block_size": 4}),
    "blocks of 16": ("mdlm", {"objective.block_size": 16}),
}
SMALL = {
    **{"train.batch": 16, "data.length": 128, "data.vocabulary": "unigram"},
    **{"data.vocabulary_size": 8192, "model.dropout": 0.0, "optimizer.ema_decay": 0.0},
    **{"model.position": "rotary", "model.tie_embeddings": True},
    **{"model.output_head": "table", "optimizer.weight_decay": 0.0},
}


def make_step(experiment: str, changes: dict[str, Any]) -> tuple[Callable, float]:
    """A function that runs a step, and XLA's count of its FLOPs."""
    config = load_config(f"experiments/{experiment}.py", SMALL | changes)
    vocab = placeholder_vocab(config)
    program = build_program(config, vocab=vocab)
    step, cost = compile_step(program)
    batch = random_batch(
        program.objective, vocab, config.train.batch, config.data.length
    )
    batch = sharding.to_devices(batch, program.abstract_batch)
    with sharding.context(program.mesh):
        held = [initial_state(program, 0)]

    def run() -> None:
        held[0] = step(held[0], batch)
        jax.block_until_ready(held[0])

    return run, cost.flops


def main() -> None:
    steps = {name: make_step(*case) for name, case in CASES.items()}
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(1 + ROUNDS):
        for name, (run, _) in steps.items():
            begin = time.process_time()
            run()
            seconds[name].append(time.process_time() - begin)
    median = {name: statistics.median(each[1:]) for name, each in seconds.items()}
    print("objective | CPU seconds a step | / lm | GFLOP | / lm")
    for name, (_, flops) in steps.items():
        ratios = median[name] / median["lm"], flops / steps["lm"][1]
        print(
            f"{name} | {median[name]:.3f} | {ratios[0]:.2f} | {flops / 1e9:.1f} | "
            f"{ratios[1]:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
