"""What a config's step costs: `python -m launch.benchmark --config=F [--config.k=v]`.

Prints one JSON object. The bare compiled step and the loop around it are timed in
turns, and the fastest turn of each counts, so that a busy machine does not decide.
Tokens are those of clean text: train.batch x data.length.
"""

import json
import tempfile
import time

from launch.cli import Parser, main
from launch.config import load
from launch.hardware import accelerators


def run(args) -> None:
    config = load(args.config, args.overrides)
    with config.unlocked():
        config.train.steps = args.turns * args.steps + config.optimizer.warmup_steps + 1
        config.train.eval_every = config.train.checkpoint_every = 0
        config.train.log_every = args.steps
    with tempfile.TemporaryDirectory() as workdir:
        print(json.dumps(measure(config, workdir, args.turns, args.steps), indent=2))


def measure(config, workdir: str, turns: int, steps: int) -> dict:
    """Times `turns` x `steps` steps of the loop and as many of the bare step."""
    import jax

    from research.data.progress import progress
    from research.distributed import sharding
    from research.distributed.failure_detector import Peers
    from research.run.flops import compile_step
    from research.run.setup import build_program, train_batches
    from research.train import Loop

    program = build_program(config)
    began = time.monotonic()
    step, cost = compile_step(program)
    compile_seconds = time.monotonic() - began
    batches = train_batches(program, 0, turns * steps + 1)
    bare, looped = [], []
    with (
        sharding.context(program.mesh),
        progress("benchmark", turns * steps) as report,
    ):
        loop = Loop(program, step, config, workdir, Peers())
        batch = next(batches)
        loop.state = jax.block_until_ready(step(loop.state, batch))
        for turn in range(turns):
            began = time.monotonic()
            for _ in range(steps):
                loop.state = step(loop.state, batch)
            jax.block_until_ready(loop.state)
            bare.append(time.monotonic() - began)
            began = time.monotonic()
            loop.run_steps((turn + 1) * steps, batches, report)
            jax.block_until_ready(loop.state)
            looped.append(time.monotonic() - began)
        loop.close()
    return {
        "config": config.objective.name,
        **figures(cost, min(looped) / steps, config.train.batch * config.data.length),
        "compile_seconds": compile_seconds,
        "overhead": min(looped) / min(bare) - 1,
        "bare_seconds": [seconds / steps for seconds in bare],
        "loop_seconds": [seconds / steps for seconds in looped],
    }


def figures(cost, seconds: float, tokens: int) -> dict:
    """What a step of so many seconds and tokens comes to on the devices here."""
    import jax

    devices = jax.devices()
    kind, rate = devices[0].device_kind, cost.flops / seconds
    chip = accelerators.of(kind)
    return {
        "device": kind,
        "num_devices": len(devices),
        "step_seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "flops_per_token": cost.flops / tokens,
        "flops_per_second": rate,
        "mfu": rate / (chip.flops * len(devices)) if chip else None,
        "peak_bytes": cost.peak_bytes,
    }


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument("--turns", type=int, default=8, help="turns of each")
    parser.add_argument("--steps", type=int, default=5, help="steps a turn")
    return parser


if __name__ == "__main__":
    main(run, parser())
