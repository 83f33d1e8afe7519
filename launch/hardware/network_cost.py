"""What a network costs: parameters, bytes, FLOPs of a row, seconds of a batch."""

from typing import Any

import jax
import numpy as np

from launch.hardware.timing import best_seconds
from research import networks
from research.checkpoints import int8_weights
from research.distributed import sharding
from research.run.flops import count_flops
from research.run.setup import Program, eval_batches

BATCHES = (1, 32)
"""Rows of the batches that are timed."""


def network_cost(program: Program, params: Any) -> dict[str, float]:
    """Figures of a forward pass of the objective, with its loss and its predictions.

    Args:
      params: as they are stored; integers are multiplied as such.

    Returns:
      parameters and those that are not 0; `flops` of the products for one row of
      `data.length`; `seconds_N` of a batch of N rows, the fastest of several turns.
    """
    objective, network = program.objective.for_evaluation(), program.network
    key = jax.random.key(program.seed)

    def forward(params: Any, batch: dict) -> Any:
        def both(net: Any) -> Any:
            terms, _ = objective.loss(net, batch | {"carry": None}, key)
            totals = {name: term.total for name, term in terms.items()}
            return totals, objective.predictions(net, batch)

        return networks.apply(network, params, both)

    weights = jax.tree.leaves(int8_weights.float_shapes(params))  # no scales
    found = {
        "parameters": sum(leaf.size for leaf in weights),
        "nonzero": sum(int(np.count_nonzero(np.asarray(leaf))) for leaf in weights),
    }
    constants = program.constants.abstract
    whole = next(iter(eval_batches(program)))
    with sharding.context(program.mesh):
        for rows in BATCHES:
            batch = {
                name: array if name in constants else _rows(array, rows)
                for name, array in whole.items()
            }
            if rows == 1:
                found["flops"] = count_flops(forward, params, batch)
            call = jax.jit(forward).lower(params, batch).compile()
            found[f"seconds_{rows}"] = best_seconds(
                lambda c=call, b=batch: c(params, b)
            )
    return found


def _rows(array: jax.Array, count: int) -> jax.Array:
    """As many rows, from the first on and again."""
    return array[np.arange(count) % len(array)]
