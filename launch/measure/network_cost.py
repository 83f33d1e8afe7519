"""What a network costs: parameters, bytes, FLOPs of a row, seconds of a batch."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from launch.measure.timing import best_seconds_of
from research import networks
from research.distributed import sharding
from research.interop import int8_weights
from research.program.flops import count_flops
from research.program.setup import Program, eval_batches

BATCHES = (1, 32)
"""Rows of the batches that are timed."""


class Prepared(NamedTuple):
    """A network whose forward pass is compiled."""

    figures: dict[str, float]  # parameters, those that are not 0, `flops` of a row
    calls: list[Callable[[], Any]]  # of a batch of each of BATCHES


def prepare(program: Program, params: Any) -> Prepared:
    """Counts what a network costs and compiles its forward pass.

    Args:
      params: as they are stored; integers are multiplied as such.
    """
    forward = make_forward(program)
    weights = jax.tree.leaves(int8_weights.float_shapes(params))  # no scales
    figures = {
        "parameters": sum(leaf.size for leaf in weights),
        "nonzero": sum(int(np.count_nonzero(np.asarray(leaf))) for leaf in weights),
    }
    constants, calls = program.constants.abstract, []
    whole = next(iter(eval_batches(program)))
    with sharding.context(program.mesh):
        for rows in BATCHES:
            batch = {
                name: array if name in constants else _rows(array, rows)
                for name, array in whole.items()
            }
            if rows == 1:
                figures["flops"] = count_flops(forward, params, batch)
            compiled = jax.jit(forward).lower(params, batch).compile()
            calls.append(partial(compiled, params, batch))
    return Prepared(figures, calls)


def make_forward(program: Program) -> Callable[[Any, dict], Any]:
    """The function (parameters, batch) that `Objective.outputs` of evaluations is."""
    objective, key = program.objective.for_evaluation(), jax.random.key(program.seed)

    def forward(params: Any, batch: dict) -> Any:
        batch = batch | {"carry": None}
        return networks.apply(
            program.network, params, lambda net: objective.outputs(net, batch, key)
        )

    return forward


def network_costs(networks: Sequence[Prepared]) -> list[dict[str, float]]:
    """The figures of each network, with `seconds_N` of a batch of N rows.

    They are the fastest of several turns, which the networks take one after the other.
    """
    costs = [dict(each.figures) for each in networks]
    for number, rows in enumerate(BATCHES):
        seconds = best_seconds_of([each.calls[number] for each in networks])
        for cost, own in zip(costs, seconds, strict=True):
            cost[f"seconds_{rows}"] = own
    return costs


def _rows(array: jax.Array, count: int) -> jax.Array:
    """As many rows, from the first on and again."""
    return array[np.arange(count) % len(array)]
