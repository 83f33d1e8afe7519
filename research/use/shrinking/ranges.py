"""The input ranges of dense layers of 8-bit integers, measured on training text."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research.checkpoints.checkpoint import path_name
from research.contract.errors import UserError
from research.networks.shared.quantized import COUNT, INPUT_RANGE, MEASURE
from research.program.setup import Program
from research.use.shrinking.gradients import make_gradients

DECAY = 0.95
"""Of the moving average over batches (kssteven418/I-BERT, quant_modules.py, QuantAct);
Q8BERT's 0.9999 is for thousands of steps."""


def measure_ranges(program: Program, params: Any, batches: int) -> dict[str, Any]:
    """Path -> the moving average of the largest absolute input in a batch, [layers].

    Raises:
      UserError: layers share their parameters, and so one range; or the objective runs
        a layer several times, for which gradients only give the sum.
    """
    options = program.network.options
    if options.shared_layers or options.shared_stacks:
        raise UserError(
            "--range=ema measures each layer alone, but model.shared_layers or "
            "model.shared_stacks is true; set --range=token"
        )
    shapes = {
        path_name(path): leaf.shape
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
        if path_name(path).endswith(INPUT_RANGE)
    }
    asking, counting = (
        {name: jnp.full(shape, what) for name, shape in shapes.items()}
        for what in (MEASURE, COUNT)
    )
    average: dict[str, Any] = {}
    gradients = make_gradients(program, with_ranges)
    for runs in gradients(params, counting, 1):
        if name := next((n for n, count in runs.items() if np.max(count) > 1), ""):
            raise UserError(
                f"--range=ema measures what a layer reads in one run, but objective "
                f"{program.objective.name} runs {name.removesuffix(INPUT_RANGE)[:-1]} "
                "several times; set --range=token"
            )
    for found in gradients(params, asking, batches):
        average = {
            name: DECAY * average.get(name, largest) + (1 - DECAY) * largest
            for name, largest in found.items()
        }
    return {name: np.float32(value) for name, value in average.items()}


def with_ranges(params: Any, ranges: dict[str, Any]) -> Any:
    """The parameters with these ranges at their paths."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: ranges.get(path_name(path), leaf), params
    )
