"""The kernels for Hopper, run on one, beside attention in float64.

    python -m tests.proofs.hopper_values

Prints the error of the output and of each gradient, the norm of the difference divided
by that of the reference: of every pattern, at both head widths, with and without
dropout and a bias by distance, as T5's. Each case runs twice, and the two have to be
equal bit by bit, as no sum depends on the order of blocks. Exits with 1 if one is not,
if an error is larger than MAX_ERROR, or if a kernel fails.
"""

# B batch, L length, H heads, K head width

import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from launch.measure.attention_speed import PATTERNS, make_case
from research.kernels.counter_dropout import counter_dropout, dropout_seeds
from research.kernels.hopper.attention import BIAS_TILES, DTYPES, TILES
from research.kernels.plan import Settings, make_plan
from research.networks.shared.dense_attention import (
    AttentionInputs,
    attention_mask,
)
from research.networks.transformer.kernels.hopper import HOPPER, Kernel
from tests.kernels.test_hopper_attention import gradients
from tests.kernels.test_interval_attention import BOUNDS, dense

MAX_ERROR = {"bfloat16": 1e-2, "float16": 2e-3}
"""Dtype -> the largest error of an array: several times that of one rounding."""
ROWS, HEADS, RATE = 2, 3, 0.1
LENGTHS = (64, 517, 1024)
NAMES = ("output", "query", "key", "value", "bias")


def main() -> int:
    device = jax.devices()[0]
    if not getattr(device, "compute_capability", "").startswith(HOPPER):
        print(f"error: needs a GPU of compute capability 9, not {device.device_kind}")
        return 2
    print(f"{device.device_kind}, JAX {jax.__version__}")
    failed = 0
    for width in TILES:
        for dtype in DTYPES:
            for length in LENGTHS if dtype == DTYPES[0] else LENGTHS[1:2]:
                for pattern in PATTERNS:
                    for more in (False, True):
                        failed += not _holds(pattern, length, width, dtype, more)
    print(f"{failed} failed")
    return int(failed > 0)


def _holds(pattern: str, length: int, width: int, dtype: str, more: bool) -> bool:
    """Whether a case is right; with dropout and a bias if `more`."""
    began = time.monotonic()
    name = f"{pattern:9} {length:5} x {width:3} {dtype:8} {'bias, dropout' * more:13}"
    try:
        first, again, expected = _compute(pattern, length, width, dtype, more)
    except Exception as error:  # what a compiler says is the result
        print(f"{name} {type(error).__name__}: {str(error).splitlines()[0][:200]}")
        return False
    errors = [
        float(np.linalg.norm(np.float64(x) - y) / np.linalg.norm(y))
        for x, y in zip(first, expected, strict=True)
    ]
    same = all(map(np.array_equal, first, again))
    figures = " ".join(f"{k} {e:.1e}" for k, e in zip(NAMES, errors, strict=False))
    holds = same and all(error <= MAX_ERROR[dtype] for error in errors)  # no NaN
    ending = f"{time.monotonic() - began:.1f} s" + " NOT REPEATED" * (not same)
    print(f"{name} {figures} {ending}{'' if holds else ' WRONG'}", flush=True)
    return holds


def _compute(
    pattern: str, length: int, width: int, dtype: str, more: bool
) -> tuple[list[Any], list[Any], list[Any]]:
    """Output and gradients, twice, and those of the reference."""
    random, rate = np.random.default_rng(0), RATE if more else 0.0
    case = make_case(pattern, ROWS, length)
    shape = (ROWS, length, HEADS, width)
    draws = (random.standard_normal(shape, np.float32) for _ in range(4))
    query, key, value, grad = (jnp.asarray(x, dtype) for x in draws)
    states = query / jnp.asarray(width**0.5, dtype), key, value
    bias = None
    if more:
        bias = jnp.float32(random.normal(size=(len(BOUNDS) + 1, HEADS)))
    inputs = AttentionInputs(case.group, case.group, case.pattern)
    settings = Settings(BIAS_TILES if more else TILES[width], BOUNDS * more)
    settings = settings._replace(dropout=rate)
    intervals = Kernel().mask(inputs, width, dtype).intervals
    position = case.group["position"]
    positions = (position, position) if more else None
    plan = make_plan(intervals, length, settings.tiles, positions)
    seeds = dropout_seeds(jax.random.key(0), ROWS, HEADS)

    @jax.jit
    def run(states, bias, grad, plan, seeds):
        out, grads = gradients(settings, (*states, bias), plan, grad, seeds)
        return [out, *(x for x in grads if x is not None)]

    arguments = states, bias, grad, plan, seeds if rate else None
    first, again = (list(map(np.asarray, run(*arguments))) for _ in range(2))
    row, column = (
        jax.lax.broadcasted_iota(jnp.int32, (1, 1, length, length), dim)
        for dim in (2, 3)
    )
    place = seeds[:, :, None, None], row, column
    dropped = counter_dropout(np.float32(1), *place, rate) if rate else 1.0
    mask = np.asarray(attention_mask(inputs))
    distance = position[:, None] - position[:, :, None]
    out, grads = dense(*states, bias, mask, distance, grad, np.float64(dropped))
    return first, again, [out, *grads]


if __name__ == "__main__":
    sys.exit(main())
