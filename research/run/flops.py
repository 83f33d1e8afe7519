"""What a compiled step costs: FLOPs read off its jaxpr, bytes off the compiler."""

import math
from typing import Any, NamedTuple

import jax
from jax.extend import core
from jax.interpreters import partial_eval


class Cost(NamedTuple):
    flops: float  # of one step, over all devices
    recomputed_flops: float  # what rematerialisation adds to them
    peak_bytes: int  # of one device


def count_flops(function: Any, *arguments: Any) -> float:
    """Multiplications and additions of all matrix products of a function.

    XLA's own count takes a scanned body once; here it counts as often as it runs. What
    the result does not depend on is left out first.

    Args:
      function: to be traced.
      *arguments: arrays or their shapes.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    jaxpr, _ = partial_eval.dce_jaxpr(
        closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True
    )
    return _count(jaxpr)


def _count(jaxpr: Any) -> float:
    return sum(_equation(equation) for equation in jaxpr.eqns)


def _equation(equation: Any) -> float:
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
        return _dot(equation)
    inner = [
        _count(part.jaxpr if isinstance(part, core.ClosedJaxpr) else part)
        for value in params.values()
        for part in (value if isinstance(value, (tuple, list)) else (value,))
        if isinstance(part, (core.ClosedJaxpr, core.Jaxpr))
    ]
    if name == "scan":
        return params["length"] * sum(inner)
    if name == "cond":
        return max(inner, default=0.0)
    return sum(inner)


def _dot(equation: Any) -> float:
    (contract, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return (
        2.0
        * math.prod(equation.outvars[0].aval.shape)
        * math.prod(left[axis] for axis in contract)
    )


def peak_bytes(compiled: Any) -> int:
    """Bytes one device needs at the most while the step runs."""
    return int(compiled.memory_analysis().peak_memory_in_bytes)
