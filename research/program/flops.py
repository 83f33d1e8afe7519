"""The cost of a train step: FLOPs from its jaxpr, peak memory from the compiler."""

import math
from collections import Counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.interpreters import partial_eval

from research.distributed import sharding
from research.networks.transformer import kernels
from research.networks.transformer.drawn_branch import drawn_probability

KERNELS = ("pallas_call", "mpmd_map")
"""Primitives of Pallas kernels for TPUs and GPUs, which state their own FLOPs."""

# fmt: off
ARITHMETIC = {
    "abs", "add", "add_any", "cos", "cumsum", "div", "erf", "erf_inv", "erfc", "exp",
    "exp2", "expm1", "integer_pow", "log", "log1p", "logistic", "max", "min", "mul",
    "neg", "pow", "reduce_max", "reduce_min", "reduce_sum", "rsqrt", "sin", "sqrt",
    "square", "sub", "tanh",
}
# fmt: on
"""Primitives that count as one FLOP per element of their largest operand."""
PRODUCTS = " products"
"""Suffix of the kinds in `flops_by_kind` that are matrix products."""
SKIPPABLE = "skippable"
"""Kind of the product FLOPs (also counted elsewhere) that depend on values: for example
chunks of a cluster without words are skipped."""


class Cost(NamedTuple):
    """What one step costs."""

    flops: float  # over all devices, without rematerialisation; an upper bound if any
    # are skippable
    recomputed_flops: float  # FLOPs that rematerialisation adds
    peak_bytes: int  # on one device
    skippable_flops: float = 0.0  # among `flops`, those that depend on values


def step_cost(program: Any, compiled: Any) -> Cost:
    """The cost of the step of a `research.program.setup.Program`.

    Args:
      compiled: the compiled step.
    """
    on_cpu = program.mesh.devices.flat[0].platform == "cpu"
    needed, computed = step_flops_by_kind(program)
    return Cost(
        product_flops(needed),
        product_flops(computed) - product_flops(needed),
        peak_bytes(compiled, on_cpu=on_cpu),
        needed[SKIPPABLE],
    )


def step_flops(program: Any) -> tuple[float, float]:
    """FLOPs of a step without rematerialisation, and those that remat adds."""
    needed, computed = map(product_flops, step_flops_by_kind(program))
    return needed, computed - needed


def step_flops_by_kind(program: Any) -> tuple[Counter[str], Counter[str]]:
    """`flops_by_kind` of a step without its remat policy, and with it."""
    shapes = program.step_shapes
    with sharding.context(program.mesh):
        needed = flops_by_kind(program.step_without_remat, *shapes)
        if program.step_without_remat is program.step:
            return needed, needed
        return needed, flops_by_kind(program.step, *shapes)


def peak_bytes(compiled: Any, *, on_cpu: bool = False) -> int:
    """Peak memory of one device while a compiled step runs, in bytes."""
    sizes = compiled.memory_analysis()
    if not on_cpu:
        return int(sizes.peak_memory_in_bytes)
    # XLA:CPU's own peak leaves out temporary buffers.
    kept = sizes.argument_size_in_bytes + sizes.temp_size_in_bytes
    return int(kept + sizes.output_size_in_bytes - sizes.alias_size_in_bytes)


def count_flops(function: Any, *arguments: Any) -> float:
    """Multiplications and additions of all matrix products of a function."""
    return product_flops(flops_by_kind(function, *arguments))


def product_flops(flops: Counter[str]) -> float:
    """The FLOPs of matrix products of all dtypes, from `flops_by_kind`."""
    return float(sum(n for kind, n in flops.items() if kind.endswith(PRODUCTS)))


def flops_by_kind(function: Any, *arguments: Any) -> Counter[str]:
    """FLOPs of a function by kind: "bfloat16 products" (and other dtypes), "other".

    Branches are weighted by their probability if `drawn_branch` gives it. Otherwise the
    more expensive branch counts, and `SKIPPABLE` is how much less the products may be.
    The dtype is that of a product's first operand. XLA counts the body of a scan once;
    this counts every iteration. Equations that do not affect the result are removed
    first. A kernel states its FLOPs (`Kernel.products`); the body of a `shard_map`
    counts once per device. "other" is elementwise floating-point arithmetic
    (`ARITHMETIC`).

    Args:
      function: a function that JAX can trace.
      *arguments: its arguments, as arrays or shapes.
    """
    closed = jax.make_jaxpr(function)(*arguments)
    jaxpr, _ = partial_eval.dce_jaxpr(
        closed.jaxpr, [True] * len(closed.jaxpr.outvars), instantiate=True
    )
    return _jaxpr_flops(jaxpr)


def _jaxpr_flops(jaxpr: Any) -> Counter[str]:
    total: Counter[str] = Counter()
    for equation in jaxpr.eqns:
        total.update(_equation_flops(equation))
    return total


def _equation_flops(equation: Any) -> Counter[str]:
    name, params = equation.primitive.name, equation.params
    numbers = [
        operand.aval
        for operand in equation.invars
        if jnp.issubdtype(getattr(operand.aval, "dtype", bool), jnp.floating)
    ]
    products = f"{numbers[0].dtype}{PRODUCTS}" if numbers else PRODUCTS
    if name == "dot_general":
        return Counter({products: _dot_flops(equation)})
    if name in KERNELS:
        cost = params["cost_estimate"]
        return Counter({products: float(cost.flops), "other": cost.transcendentals})
    if num_products := kernels.num_products(name):
        (rows, queries, heads, width), (_, keys, *_) = (
            operand.aval.shape for operand in equation.invars[:2]
        )
        count = num_products * 2.0 * rows * heads * queries * keys * width
        return Counter({products: count})
    if name in ARITHMETIC and numbers:
        return Counter({"other": max(array.size for array in numbers)})
    inner = [
        _jaxpr_flops(item)
        for value in params.values()
        for item in (value if isinstance(value, (tuple, list)) else (value,))
        if hasattr(item, "eqns")
    ]
    if name == "cond":
        return _branch_flops(inner, drawn_probability(equation))
    times = 1
    if name == "scan":
        times = params["length"]
    elif name == "shard_map":
        times = params["mesh"].size
    total = sum(inner, Counter())
    return Counter({kind: times * count for kind, count in total.items()})


def _branch_flops(
    branches: list[Counter[str]], probability: float | None
) -> Counter[str]:
    if probability is not None:
        shares = zip((1 - probability, probability), branches, strict=True)
        parts = [Counter({k: p * n for k, n in own.items()}) for p, own in shares]
        return sum(parts, Counter())
    most = max(branches, key=product_flops)
    least = min(product_flops(each) - each[SKIPPABLE] for each in branches)
    return most | Counter({SKIPPABLE: product_flops(most) - least})


def _dot_flops(equation: Any) -> float:
    (contracting, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return (
        2.0
        * math.prod(equation.outvars[0].aval.shape)
        * math.prod(left[dim] for dim in contracting)
    )
