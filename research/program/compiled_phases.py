"""Builds and compiles each phase of a run: its program and its step."""

import contextlib
import itertools
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from research.checkpoints.checkpoint import path_name
from research.config.config import Config
from research.config.phases import Phase, run_phases
from research.contract.batch import CONSTANTS, Batch
from research.contract.errors import UserError
from research.contract.state import State
from research.data import cache
from research.distributed import sharding
from research.networks.shared.products import has_fast_bfloat16
from research.program.flops import Cost, step_cost
from research.program.setup import (
    Program,
    build_program,
    count_parameters,
    label_names,
    train_batches,
)

MAX_LABELS = 50
"""Most class names that are printed."""


def build_phases(
    config: Config, devices: Sequence[jax.Device] | None = None
) -> tuple[Program, list[Phase]]:
    """The program of the config itself, for evaluations, and the phases of the run.

    Raises:
      UserError: a value of the config makes a run impossible.
    """
    program = build_program(config, devices)
    if config.train.phases:
        return _build_each(config, program, devices)
    return program, [Phase(config.train.steps, config, program)]


def _build_each(
    config: Config, program: Program, devices: Sequence[jax.Device] | None
) -> tuple[Program, list[Phase]]:
    """The phases with their programs; the fingerprint covers the data of all phases."""
    phases = run_phases(config)
    configs = config, *(phase.config for phase in phases)
    rows = {(own.data.length, own.train.batch) for own in configs}
    if len(rows) > 1 and program.data.train.source.contiguous:
        raise UserError(
            f"train.phases: rows of objective {config.objective_name} continue from "
            "step to step; data.length and train.batch cannot change"
        )
    for number, phase in enumerate(phases):
        own = phase.config
        built = program if own is config else build_program(own, devices)
        _check_same_state(built, program)
        built = built._replace(constants=program.constants)  # read once
        phases[number] = phase._replace(program=built)
    read = sorted({phase.program.data.fingerprint for phase in phases})
    if len(read) > 1:
        data = program.data._replace(fingerprint=cache.fingerprint(read))
        program = program._replace(data=data)
    return program, phases


def _check_same_state(phase: Program, whole: Program) -> None:
    """Raises UserError if the state of a phase differs from that of the run."""
    expected = _state_shapes(whole)
    for what, shapes in _state_shapes(phase).items():
        if differ := dict(shapes.items() ^ expected[what].items()):
            raise UserError(
                f"train.phases: a phase has other {what} than the config "
                f"({', '.join(sorted(differ)[:3])}); leave out the key that changes "
                "them"
            )


def _state_shapes(program: Program) -> dict[str, dict[str, tuple[int, ...]]]:
    """Part of the state -> path of each of its arrays -> the array's shape."""
    state = program.abstract_state
    trees = {
        "parameters": state.params,
        "carried states": state.carry,
        "terms of the loss": {name: total for name, (total, *_) in state.sums.items()},
    }
    paths = jax.tree_util.tree_leaves_with_path
    return {
        what: {path_name(path): leaf.shape for path, leaf in paths(tree)}
        for what, tree in trees.items()
    }


def compile_step(
    program: Program, xla_options: Mapping[str, Any] | None = None
) -> tuple[Any, Cost]:
    """The compiled step of (state, batch), for data.length, and its cost.

    Args:
      xla_options: XLA flags and their values, for this step only.
    """
    with sharding.context(program.mesh):
        lowered = program.step.lower(*program.step_shapes)
        compiled = lowered.compile(compiler_options=xla_options)
    key_data = program.key_data()

    def step(state: State, batch: Batch) -> State:
        return compiled(state, batch, key_data)

    return step, step_cost(program, compiled)


def compile_phases(phases: Sequence[Phase]) -> list[Phase]:
    """The phases with their compiled steps and the costs of these."""
    return [phase._replace(**_compile_lengths(phase.program)) for phase in phases]


def _compile_lengths(program: Program) -> dict[str, Any]:
    """The `step` and `costs` of a phase, compiled for each length of a batch."""
    steps, costs = {}, {}
    for length, batch in program.abstract_batches.items():
        of_length = program._replace(abstract_batches={length: batch})
        steps[_shapes(batch)], costs[length] = compile_step(of_length)
    if len(steps) == 1:
        return {"step": steps.popitem()[1], "costs": costs}
    return {"step": lambda *args: steps[_shapes(args[1])](*args), "costs": costs}


def _shapes(batch: Batch) -> frozenset[tuple[str, tuple[int, ...]]]:
    """The shapes of the arrays that have rows."""
    return frozenset(
        (name, leaf.shape) for name, leaf in batch.items() if name != CONSTANTS
    )


def _step_costs(phase: Phase, start: int, stop: int) -> list[tuple[int, Cost]]:
    """(number of steps, cost of one) for each batch length, from `start` to `stop`."""
    if len(phase.costs) == 1:
        return [(stop - start, cost) for cost in phase.costs.values()]
    numbers = phase.program.data.train.buckets.count_steps(start, stop)
    return [(numbers[length], cost) for length, cost in phase.costs.items()]


def tokens_seen(phases: Sequence[Phase], step: int) -> int:
    """Tokens of all batches before a step, counted before corruption.

    Each row counts data.length tokens, even where length buckets make it shorter.
    """
    total = start = 0
    for phase in phases:
        num_steps = max(0, min(step, phase.stop) - start)
        total += num_steps * phase.config.train.batch * phase.config.data.length
        start = phase.stop
    return total


def cost_facts(phases: Sequence[Phase], last_step: int) -> dict[str, Any]:
    """A run's costs, as in its result: means over its steps, and peak memory.

    Tokens are counted in all batches, before corruption. `flops_to` has a pair for each
    phase: the step after which it ends, and the FLOPs of all steps up to there. FLOPs
    include those that depend on values, `skippable_flops_per_step`.

    Args:
      last_step: the step after which the run ends.
    """
    stops = [0, *(min(phase.stop, last_step) for phase in phases)]
    by_phase = [
        _step_costs(phase, *bounds)
        for phase, bounds in zip(phases, itertools.pairwise(stops), strict=True)
    ]
    costs = [each for own in by_phase for each in own]
    tokens = tokens_seen(phases, stops[-1])
    flops = [sum(num * cost.flops for num, cost in own) for own in by_phase]
    total = sum(flops)
    recomputed = sum(num * cost.recomputed_flops for num, cost in costs)
    skippable = sum(num * cost.skippable_flops for num, cost in costs)
    return {
        "tokens_seen": tokens,
        "flops_per_step": total / stops[-1],
        "flops_to": [
            *map(list, zip(stops[1:], itertools.accumulate(flops), strict=True))
        ],
        "flops_per_token": total / tokens,
        "skippable_flops_per_step": skippable / stops[-1],
        "recomputed_flops_per_step": recomputed / stops[-1],
        "peak_bytes": max(cost.peak_bytes for _, cost in costs),
    }


def run_lines(
    program: Program, phases: Sequence[Phase], config: Config
) -> Iterator[str]:
    """The lines that are printed about a run before its first step.

    Args:
      program: the first value that `build_phases` returns.
    """
    cost = cost_facts(phases, phases[-1].stop)
    mesh = " x ".join(f"{name} {size}" for name, size in program.mesh.shape.items())
    parameters = count_parameters(program.abstract_state.params)
    yield (
        f"{config.objective_name}: {parameters:,} parameters, "
        f"{_gflop(cost['flops_per_step'], cost['skippable_flops_per_step'])}, "
        f"{cost['flops_per_token'] / 1e6:,.1f} MFLOP a token, "
        f"{cost['peak_bytes'] / 2**20:,.0f} MiB a device on mesh {mesh}"
    )
    counts = [f"{name} {n:,}" for name, n in program.data.counts.items() if n]
    yield f"text: {', '.join(counts)}" if counts else "text: not counted"
    if program.data.evaluation_note:
        yield program.data.evaluation_note
    if labels := label_names(program):
        more = f" and {len(labels) - MAX_LABELS} more" * (len(labels) > MAX_LABELS)
        yield f"{len(labels)} classes: {', '.join(labels[:MAX_LABELS])}{more}"
    for dim in program.replicated_dims:
        yield f"replicated, since the mesh axis does not divide it: {dim}"
    if program.network.options.operand_dtype == "bfloat16":
        yield from _processor_lines(program)
    if len(phases) > 1:
        start = 0
        for phase in phases:
            costs = _step_costs(phase, start, phase.stop)
            num_steps, start = phase.stop - start, phase.stop
            flops = sum(num * own.flops for num, own in costs) / num_steps
            skippable = sum(own.skippable_flops for _, own in costs)
            yield (
                f"to step {phase.stop:,}: length {phase.config.data.length}, batch "
                f"{phase.config.train.batch}, {_gflop(flops, skippable)}"
            )


def _gflop(flops: float, skippable: float) -> str:
    """A step's FLOPs as text; an upper bound if some depend on values."""
    return f"{'at most ' if skippable else ''}{flops / 1e9:,.1f} GFLOP a step"


def _processor_lines(program: Program) -> Iterator[str]:
    """Warns that bfloat16 products are slow if the processor does not support them."""
    platform = program.mesh.devices.flat[0].platform
    cpuinfo = Path("/proc/cpuinfo")
    if platform != "cpu" or not cpuinfo.exists():
        return
    if not has_fast_bfloat16(cpuinfo.read_text("utf-8")):
        yield (
            "this processor has no fast products of bfloat16 (AMD's avx512_bf16, "
            "amx_bf16, Arm's bf16): float32 is faster "
            "(model.dtype=float32 model.product_dtype=dtype)"
        )


def steps_and_batches(
    phases: Sequence[Phase], start: int
) -> Generator[tuple[Any, Batch]]:
    """The compiled step and the batch of each step from `start` to the run's end."""
    for phase in phases:
        if start < phase.stop:
            made = train_batches(phase.program, start, phase.stop)
            with contextlib.closing(made) as batches:
                for batch in batches:
                    yield phase.step, batch
            start = phase.stop
