"""The parts of a run: one, or one for each of its phases; each has a compiled step."""

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from research.data import cache
from research.distributed import sharding
from research.errors import UserError
from research.run.flops import Cost, step_cost
from research.run.phases import run_phases
from research.run.setup import Program, build_program, count_parameters, train_batches
from research.step import State


class Part(NamedTuple):
    """Steps that share one config, and what they need."""

    stop: int  # the step before which it ends
    config: Any
    program: Program
    step: Any = None  # compiled by `compile_parts`
    costs: dict[int, Cost] | None = None  # of that step, by the length of the batch


def build_parts(config: Any, devices: Any = None) -> tuple[Program, list[Part]]:
    """The program of the config itself, which evaluates, and the parts of the run.

    Raises:
      UserError: a value of the config that cannot be run.
    """
    program = build_program(config, devices)
    if config.train.phases:
        return _build_phases(config, program, devices)
    return program, [Part(config.train.steps, config, program)]


def _build_phases(
    config: Any, program: Program, devices: Any
) -> tuple[Program, list[Part]]:
    """A part for each phase; the fingerprint of the data is that of all they read."""
    parts = []
    for stop, own in run_phases(config):
        built = program if own is config else build_program(own, devices)
        parts.append(Part(stop, own, built))
    rows = {(part.config.data.length, part.config.train.batch) for part in parts}
    if len(rows) > 1 and program.data.train.source.contiguous:
        raise UserError(
            f"train.phases: rows of objective {config.objective.name} continue from "
            "step to step; data.length and train.batch cannot change"
        )
    read = sorted({part.program.data.fingerprint for part in parts})
    if len(read) > 1:
        data = program.data._replace(fingerprint=cache.fingerprint(read))
        program = program._replace(data=data)
    return program, parts


def compile_step(program: Program) -> tuple[Any, Cost]:
    """The compiled step of (state, batch), for data.length, and its cost."""
    with sharding.context(program.mesh):
        compiled = program.step.lower(*program.step_shapes).compile()
    key_data = program.key_data()

    def step(state: State, batch: dict) -> State:
        return compiled(state, batch, key_data)

    return step, step_cost(program, compiled)


def compile_parts(parts: Sequence[Part]) -> list[Part]:
    """The parts with their compiled steps and what these cost."""
    return [part._replace(**_compile_lengths(part.program)) for part in parts]


def _compile_lengths(program: Program) -> dict[str, Any]:
    """`step` and `costs` of a part."""
    steps, costs = {}, {}
    for length, batch in program.abstract_batches.items():
        of_length = program._replace(abstract_batches={length: batch})
        steps[_shapes(batch)], costs[length] = compile_step(of_length)
    if len(steps) == 1:
        return {"step": steps.popitem()[1], "costs": costs}
    return {"step": lambda *args: steps[_shapes(args[1])](*args), "costs": costs}


def _shapes(batch: dict) -> frozenset:
    return frozenset((name, leaf.shape) for name, leaf in batch.items())


def _step_costs(part: Part, start: int, stop: int) -> list[tuple[int, Cost]]:
    """Numbers of the steps from `start` to `stop` that cost the same, and that cost."""
    if len(part.costs) == 1:
        return [(stop - start, cost) for cost in part.costs.values()]
    numbers = part.program.data.train.buckets.count_steps(start, stop)
    return [(numbers[length], cost) for length, cost in part.costs.items()]


def tokens_seen(parts: Sequence[Part], step: int) -> int:
    """Tokens of all batches before a step, counted before corruption.

    Of rows of data.length: with length buckets they have fewer columns.
    """
    total = start = 0
    for part in parts:
        num_steps = max(0, min(step, part.stop) - start)
        total += num_steps * part.config.train.batch * part.config.data.length
        start = part.stop
    return total


def cost_facts(parts: Sequence[Part], last_step: int) -> dict[str, float]:
    """What a run costs, as its result says: means over its steps, and the most memory.

    Tokens are those of all batches, counted before corruption.

    Args:
      last_step: after which it ends.
    """
    stops = [0, *(min(part.stop, last_step) for part in parts)]
    costs = [
        each
        for part, bounds in zip(parts, itertools.pairwise(stops), strict=True)
        for each in _step_costs(part, *bounds)
    ]
    tokens = tokens_seen(parts, stops[-1])
    total = sum(num * cost.flops for num, cost in costs)
    recomputed = sum(num * cost.recomputed_flops for num, cost in costs)
    return {
        "tokens_seen": tokens,
        "flops_per_step": total / stops[-1],
        "flops_per_token": total / tokens,
        "recomputed_flops_per_step": recomputed / stops[-1],
        "peak_bytes": max(cost.peak_bytes for _, cost in costs),
    }


def run_lines(program: Program, parts: Sequence[Part], config: Any) -> Iterator[str]:
    """What a user reads about a run before its first step.

    Args:
      program: of the config, as `build_parts` returns it.
    """
    cost = cost_facts(parts, parts[-1].stop)
    mesh = " x ".join(f"{name} {size}" for name, size in program.mesh.shape.items())
    parameters = count_parameters(program.abstract_state.params)
    yield (
        f"{config.objective.name}: {parameters:,} parameters, "
        f"{cost['flops_per_step'] / 1e9:,.1f} GFLOP a step, "
        f"{cost['flops_per_token'] / 1e6:,.1f} MFLOP a token, "
        f"{cost['peak_bytes'] / 2**20:,.0f} MiB a device on mesh {mesh}"
    )
    counts = [f"{name} {n:,}" for name, n in program.data.counts.items() if n]
    yield f"text: {', '.join(counts)}" if counts else "text: not counted"
    for dim in program.replicated_dims:
        yield f"replicated, since the mesh axis does not divide it: {dim}"
    if len(parts) > 1:
        start = 0
        for part in parts:
            costs = _step_costs(part, start, part.stop)
            flops = sum(num * own.flops for num, own in costs) / (part.stop - start)
            start = part.stop
            yield (
                f"to step {part.stop:,}: length {part.config.data.length}, batch "
                f"{part.config.train.batch}, {flops / 1e9:,.1f} GFLOP a step"
            )


def steps_and_batches(parts: Sequence[Part], start: int) -> Iterator[tuple[Any, dict]]:
    """The compiled step and the batch of each step from `start` to the run's end."""
    for part in parts:
        if start < part.stop:
            made = train_batches(part.program, start, part.stop)
            with contextlib.closing(made) as batches:
                for batch in batches:
                    yield part.step, batch
            start = part.stop
