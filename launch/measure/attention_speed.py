"""Attention alone, forward and backward, by pattern, length and implementation."""

# B batch, L length, H heads, K head width

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from launch.measure.timing import Job, best_seconds
from research.networks.shared.dense_attention import (
    AttentionInputs,
    DenseMask,
    dense_attention,
)
from research.networks.transformer import kernels

PATTERNS = ("full", "causal", "prefix", "packed", "permuted")
FLOPS_PER_PAIR = 12
"""FLOPs of a query and a key, divided by the head width: two matrix products forward
and four backward, each with a multiplication and an addition."""


class Case(NamedTuple):
    """Rows of one pattern."""

    group: dict[str, np.ndarray]  # segment, rank, reach, position [B, L]
    pattern: str  # see `AttentionInputs`
    pairs: int  # number of pairs of query and key that attend, in a row


def make_case(pattern: str, rows: int, length: int) -> Case:
    """Rows of one of PATTERNS.

    The prefix of a prefix LM is the first half of a row; a packed row has four
    documents of a half, a quarter and two eighths of it; a permuted row has a random
    order.
    """
    random, index = np.random.default_rng(0), np.arange(length, dtype=np.int32)
    segment, rank, mask = np.ones_like(index), index, "general"
    causal_pairs = length * (length + 1) // 2
    pairs = causal_pairs
    if pattern == "full":
        rank, mask, pairs = np.zeros_like(index), pattern, length**2
    elif pattern == "causal":
        mask = pattern
    elif pattern == "prefix":
        prefix = length // 2
        rank = np.maximum(0, index - prefix + 1)
        pairs = causal_pairs + prefix * (prefix - 1) // 2
    elif pattern == "packed":
        starts = np.array([0, length // 2, length * 3 // 4, length * 7 // 8])
        segment = np.searchsorted(starts, index, side="right").astype(np.int32)
        sizes = np.bincount(segment)
        mask, pairs = "causal", int(np.sum(sizes * (sizes + 1) // 2))
    orders = np.tile(rank, (rows, 1))
    if pattern == "permuted":
        orders = random.permuted(orders, axis=1)
    same = {"segment": segment, "position": index}
    group = {name: np.tile(array, (rows, 1)) for name, array in same.items()}
    return Case(group | {"rank": orders, "reach": orders}, mask, pairs)


def attention_output(
    implementation: str, inputs: AttentionInputs, states: Sequence[jax.Array]
) -> jax.Array:
    """The output [B, L, H, K] for queries (already scaled), keys and values.

    Raises:
      UserError: the implementation does not support this platform.
    """
    kernel = kernels.kernel_for(implementation, kernels.platform(), interpret=False)
    mask = kernel.mask(inputs, states[0].shape[3], str(states[0].dtype))
    if isinstance(mask, DenseMask):
        return dense_attention(*states, mask)
    return mask.attend(*states)


def attention_jobs(
    lengths: Sequence[int], *, tokens: int, heads: int, head_width: int
) -> Iterator[Job]:
    """A job for each length, pattern and implementation, in bfloat16 on one device.

    Args:
      tokens: the number of tokens of all rows; there is at least one row.
    """
    for length in lengths:
        for pattern in PATTERNS:
            rows = max(1, tokens // length)
            shape = (rows, length, heads, head_width)
            facts = {"pattern": pattern, "length": length, "rows": rows}
            for name in kernels.names():
                prepare = partial(_prepare, name, pattern, shape)
                yield Job(facts | {"attention": name}, prepare)


def _prepare(
    implementation: str, pattern: str, shape: tuple[int, ...]
) -> Callable[[], dict[str, Any]]:
    rows, length, heads, head_width = shape
    case = make_case(pattern, rows, length)

    def gradient(states, grad, group):
        inputs = AttentionInputs(group, group, case.pattern)
        attend = partial(attention_output, implementation, inputs)
        return jax.vjp(lambda *states: attend(states), *states)[1](grad)

    state = jax.ShapeDtypeStruct(shape, jnp.bfloat16)
    compiled = jax.jit(gradient).lower((state,) * 3, state, case.group).compile()

    def measure() -> dict[str, Any]:
        random = np.random.default_rng(0)
        *states, grad = (
            jnp.asarray(random.standard_normal(shape, np.float32), jnp.bfloat16)
            for _ in range(4)
        )
        group = jax.device_put(case.group)
        seconds = best_seconds(lambda: compiled(tuple(states), grad, group))
        flops = FLOPS_PER_PAIR * rows * heads * head_width * case.pairs
        return {"seconds": seconds, "flops_per_second": flops / seconds}

    return measure


def product_rate(size: int) -> float:
    """FLOP/s of a product of two bfloat16 matrices [size, size] on one device."""
    random = np.random.default_rng(0)
    left, right = (
        jnp.asarray(random.standard_normal((size, size), np.float32), jnp.bfloat16)
        for _ in range(2)
    )
    product = jax.jit(jnp.matmul)
    return 2 * size**3 / best_seconds(lambda: product(left, right))
