"""The parts of a run: a program and a compiled step for each of its phases."""

import contextlib
import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from research.data import cache
from research.errors import UserError
from research.run.flops import Cost, compile_step
from research.run.phases import Phase, run_phases
from research.run.setup import (
    Program,
    build_program,
    summary_lines,
    train_batches,
)


class Part(NamedTuple):
    """A phase of a run, and what its steps need."""

    phase: Phase
    program: Program
    step: Any = None  # compiled by `compile_parts`
    cost: Cost | None = None  # of that step


def build_parts(config: Any, devices: Any = None) -> tuple[Program, list[Part]]:
    """The program of the config itself, which evaluates, and those of the phases.

    The fingerprint of the first one's data is that of all that they read.

    Raises:
      UserError: a value of the config that cannot be run.
    """
    program, parts = build_program(config, devices), []
    for phase in run_phases(config):
        own = phase.config is config
        parts.append(
            Part(phase, program if own else build_program(phase.config, devices))
        )
    rows = {(phase.config.data.length, phase.config.train.batch) for phase, *_ in parts}
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


def compile_parts(parts: Sequence[Part]) -> list[Part]:
    """The parts with their compiled steps and what these cost."""
    compiled = []
    for part in parts:
        step, cost = compile_step(part.program)
        compiled.append(part._replace(step=step, cost=cost))
    return compiled


def tokens_seen(parts: Sequence[Part], step: int) -> int:
    """Tokens of all batches before a step, counted before corruption."""
    total = start = 0
    for (stop, config), *_ in parts:
        num_steps = max(0, min(step, stop) - start)
        total += num_steps * config.train.batch * config.data.length
        start = stop
    return total


def cost_facts(parts: Sequence[Part]) -> dict[str, float]:
    """What a run costs, as its result says: means over its steps, and the most memory.

    Tokens are those of all batches, counted before corruption.
    """
    stops = [0, *(part.phase.stop for part in parts)]
    steps = [stop - start for start, stop in itertools.pairwise(stops)]
    flops, recomputed, peaks = zip(*(part.cost for part in parts), strict=True)
    tokens, total = tokens_seen(parts, stops[-1]), sum(map(operator.mul, steps, flops))
    return {
        "tokens_seen": tokens,
        "flops_per_step": total / stops[-1],
        "flops_per_token": total / tokens,
        "recomputed_flops_per_step": sum(map(operator.mul, steps, recomputed))
        / stops[-1],
        "peak_bytes": max(peaks),
    }


def run_lines(program: Program, parts: Sequence[Part], config: Any) -> Iterator[str]:
    """What a user reads about a run before its first step.

    Args:
      program: of the config, as `build_parts` returns it.
    """
    yield from summary_lines(program, config, cost_facts(parts))
    if len(parts) > 1:
        for (stop, values), _, _, cost in parts:
            yield (
                f"to step {stop:,}: length {values.data.length}, batch "
                f"{values.train.batch}, {cost.flops / 1e9:,.1f} GFLOP a step"
            )


def steps_and_batches(parts: Sequence[Part], start: int) -> Iterator[tuple[Any, dict]]:
    """The compiled step and the batch of each step from `start` to the run's end."""
    for part in parts:
        stop = part.phase.stop
        if start < stop:
            with contextlib.closing(train_batches(part.program, start, stop)) as items:
                for batch in items:
                    yield part.step, batch
            start = stop
