"""Times a config's step: `palimpsest benchmark --config=F [--config.k=v]`.

Prints one JSON object. The compiled step alone and the train loop around it are timed
in alternating turns. The fastest turn of each is reported, because other load on the
machine only ever adds time. Tokens are tokens of clean text: train.batch x data.length,
the size of every batch here.

    palimpsest benchmark --config=F --against=model.product_dtype=bfloat16

times two steps in alternating turns: the config's, and one with these keys changed. A
key that begins with `xla_` is an XLA flag (`XLA_FLAGS=--help` lists them):

    palimpsest benchmark --config=F --against=xla_cpu_prefer_vector_width=512
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial

from launch.cli import Parser, main, whole
from launch.config import load_config
from research.config.config import Config
from research.contract.errors import UserError

BOOLEANS = {"true": True, "false": False}


def run(args: argparse.Namespace) -> None:
    config = _timed_config(args, args.overrides)
    if args.against:
        own = dict(pair.partition("=")[::2] for pair in args.against)
        flags = {key: own[key] for key in own if key.startswith("xla_")}
        flags = {key: BOOLEANS.get(text, text) for key, text in flags.items()}
        keys = {key: own[key] for key in own.keys() - flags}
        other = _timed_config(args, args.overrides | keys)
        figures = {"against": own}
        figures |= compare(config, other, args.turns, args.steps, flags)
    else:
        with tempfile.TemporaryDirectory() as workdir:
            figures = measure(config, workdir, args.turns, args.steps)
    print(json.dumps(figures, indent=2))


def _timed_config(args: argparse.Namespace, overrides: dict[str, str]) -> Config:
    """The config, limited to the timed steps."""
    config = load_config(args.config, overrides)
    steps = args.turns * args.steps + config.optimizer.warmup_steps + 1
    return config.with_values(
        {
            "train.steps": steps,
            "train.eval_every": 0,
            "train.checkpoint_every": 0,
            "train.log_every": args.steps,
            "data.length_buckets": [],
        }
    )


def compare(
    config: Config, other: Config, turns: int, steps: int, flags: Mapping[str, str] = {}
) -> dict:
    """Times the compiled steps of two configs in `turns` alternating turns.

    Args:
      flags: XLA flags of the second step.

    Returns:
      tokens per second of each in its fastest turn, and the speedup: the first step's
      time over the second's, as the median over pairs of turns with its 95 % interval.
      `share_of_product` is the second step's FLOP rate over that of a float32 product.
    """
    import jax

    from research.config.phases import Phase
    from research.distributed import sharding
    from research.program.compiled_phases import compile_step, steps_and_batches
    from research.program.setup import build_program, first_state

    timed = []
    for each, options in ((config, {}), (other, flags)):
        program = build_program(each)
        try:
            step, cost = compile_step(program, options)
        except jax.errors.JaxRuntimeError as error:
            if not options:
                raise
            raise UserError(f"--against: XLA says {error}") from error
        _, batch = next(steps_and_batches([Phase(1, each, program, step)], 0))
        with sharding.context(program.mesh):
            state = step(first_state(program, each), batch)
        timed.append([program.mesh, step, state, batch])
    seconds: list[list[float]] = [[], []]
    for _ in range(turns):
        for own, times in zip(timed, seconds, strict=True):
            mesh, step, state, batch = own
            with sharding.context(mesh):
                began = time.monotonic()
                for _ in range(steps):
                    state = step(state, batch)
                own[2] = jax.block_until_ready(state)
            times.append((time.monotonic() - began) / steps)
    ratios = [a / b for a, b in zip(*seconds, strict=True)]
    tokens, fastest = config.train.batch * config.data.length, map(min, seconds)
    return {
        "config": config.objective.name,
        "tokens_per_second": [tokens / each for each in fastest],
        "speedup_median": statistics.median(ratios),
        "speedup_interval": median_interval(ratios),
        "seconds": seconds,
        **processor_figures(cost.flops / min(seconds[1])),
    }


def measure(config, workdir: str, turns: int, steps: int) -> dict:
    """Times `turns` x `steps` steps of the train loop and as many of the step alone.

    Returns:
      `step_figures` of the loop, `compile_seconds`, seconds per step in each turn,
      and `overhead`: the loop's time over the step's time, minus 1, in the fastest
      turns; `overhead_median` over pairs of turns, with its 95 % interval if there are
      at least six turns. On a CPU also its name, the FLOP rate of a plain matrix
      product, and the step's rate as a fraction of it.
    """
    import jax

    from launch.measure.step_speed import step_figures
    from research.config.phases import Phase
    from research.data.progress import progress
    from research.distributed import sharding
    from research.distributed.peers import Peers
    from research.program.compiled_phases import compile_step, steps_and_batches
    from research.program.setup import build_program
    from research.train import Loop

    program = build_program(config)
    began = time.monotonic()
    step, cost = compile_step(program)
    compile_seconds = time.monotonic() - began
    phase = Phase(turns * steps + 1, config, program, step)
    batches = steps_and_batches([phase], 0)
    tokens = config.train.batch * config.data.length
    bare, looped = [], []
    with (
        sharding.context(program.mesh),
        progress("benchmark", turns * steps) as report,
    ):
        loop = Loop(program, [phase], config, workdir, Peers())
        _, batch = next(batches)
        for _ in range(1 + steps):  # the first ones are slower
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
    ratios = [a / b for a, b in zip(looped, bare, strict=True)]
    return {
        "config": config.objective.name,
        **step_figures(cost, min(looped) / steps, tokens),
        "compile_seconds": compile_seconds,
        "overhead": min(looped) / min(bare) - 1,
        "overhead_median": statistics.median(ratios) - 1,
        "overhead_interval": median_interval([ratio - 1 for ratio in ratios]),
        **processor_figures(cost.flops * steps / min(looped)),
        "bare_seconds": [seconds / steps for seconds in bare],
        "loop_seconds": [seconds / steps for seconds in looped],
    }


def median_interval(values: Sequence[float]) -> list[float] | None:
    """An interval for the median from order statistics, with at least 95 % confidence.

    It is valid for any distribution; other load on a machine makes a few values far
    larger, and a mean is sensitive to those. None if there are too few values.
    """
    from scipy import stats

    outside = int(stats.binom.ppf(0.025, len(values), 0.5))  # at either end
    if not outside:
        return None
    in_order = sorted(values)
    return [in_order[outside - 1], in_order[-outside]]


def processor_figures(flops_per_second: float) -> dict:
    """The processor's name and FLOP rates, to compare with; {} on accelerators."""
    import jax
    import jax.numpy as jnp

    from launch.measure import processor
    from launch.measure.timing import best_seconds

    if jax.default_backend() != "cpu":
        return {}
    rates = {}
    for dtype in ("float32", "bfloat16"):
        matrix = jnp.ones((processor.PRODUCT_SIZE,) * 2, dtype)
        product = jax.jit(partial(jnp.matmul, preferred_element_type=jnp.float32))
        seconds = best_seconds(partial(product, matrix, matrix))
        rates[dtype] = processor.PRODUCT_FLOPS / seconds
    rate = rates["float32"]
    return {
        "processor": processor.processor_name(),
        "product_flops_per_second": rate,
        "bfloat16_product_flops_per_second": rates["bfloat16"],
        "share_of_product": flops_per_second / rate,
    }


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_path("--config", required=True, help="experiments/X.py[:size]")
    parser.add_argument(
        "--turns", type=whole(1), default=8, help="turns of the step and of the loop"
    )
    parser.add_argument("--steps", type=whole(1), default=5, help="steps in a turn")
    parser.add_argument(
        "--against", action="append", help="KEY=VALUE for a second step; repeatable"
    )
    return parser


if __name__ == "__main__":
    main(run, parser())
