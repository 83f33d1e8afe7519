"""The cost of a train step: FLOPs from its jaxpr, peak memory from the compiler."""

import math
from typing import Any, NamedTuple

import jax
from jax.extend import core
from jax.interpreters import partial_eval

from research.distributed import sharding


class Cost(NamedTuple):
    """What one step costs."""

    flops: float  # over all devices, without rematerialisation
    recomputed_flops: float  # what rematerialisation adds to them
    peak_bytes: int  # of one device


def step_cost(program: Any, compiled: Any) -> Cost:
    """The cost of the step of a `research.run.setup.Program`, given it compiled."""
    return Cost(*step_flops(program), peak_bytes(compiled))


def step_flops(program: Any) -> tuple[float, float]:
    """FLOPs of a step, and those that its remat policy adds to them."""
    shapes = program.step_shapes
    with sharding.context(program.mesh):
        flops = count_flops(program.step_without_remat, *shapes)
        if program.step_without_remat is program.step:
            return flops, 0.0
        return flops, count_flops(program.step, *shapes) - flops


def peak_bytes(compiled: Any) -> int:
    """The most bytes that one device needs while a compiled step runs."""
    return int(compiled.memory_analysis().peak_memory_in_bytes)


def count_flops(function: Any, *arguments: Any) -> float:
    """Multiplications and additions of all matrix products of a function.

    XLA's own count takes the body of a scan once; here it counts as often as it runs.
    Equations that the result does not depend on are removed first. A kernel states its
    own number; what `shard_map` maps runs on every device.

    Args:
      function: to be traced.
      *arguments: arrays or their shapes.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    jaxpr, _ = partial_eval.dce_jaxpr(
        closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True
    )
    return _jaxpr_flops(jaxpr)


def _jaxpr_flops(jaxpr: Any) -> float:
    return sum(_equation_flops(equation) for equation in jaxpr.eqns)


def _equation_flops(equation: Any) -> float:
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
        return _dot_flops(equation)
    if name == "pallas_call":
        return float(params["cost_estimate"].flops)
    inner = [
        _jaxpr_flops(item.jaxpr if isinstance(item, core.ClosedJaxpr) else item)
        for value in params.values()
        for item in (value if isinstance(value, (tuple, list)) else (value,))
        if isinstance(item, (core.ClosedJaxpr, core.Jaxpr))
    ]
    if name == "scan":
        return params["length"] * sum(inner)
    if name == "shard_map":
        return params["mesh"].size * sum(inner)
    if name == "cond":
        return max(inner, default=0.0)
    return sum(inner)


def _dot_flops(equation: Any) -> float:
    (contracting, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return (
        2.0
        * math.prod(equation.outvars[0].aval.shape)
        * math.prod(left[dim] for dim in contracting)
    )
