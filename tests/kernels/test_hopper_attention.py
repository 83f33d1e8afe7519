"""The kernels for Hopper equal attention in float64, and lower for CUDA.

They are interpreted on a CPU, with tiles that the lengths do not divide. JAX interprets
loops, copies and barriers; the tensor cores' products are only lowered.
"""

# B batch, L queries, M keys, H heads, K head width

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams

from research.kernels.counter_dropout import counter_dropout, dropout_seeds
from research.kernels.hopper.attention import TILES, hopper_attention
from research.kernels.intervals import run_intervals, sorted_intervals
from research.kernels.plan import Settings, Tiles, make_plan
from tests.kernels.test_interval_attention import BOUNDS, check, dense


def gradients(settings, states, plan, grad, seeds=None):
    """Output and gradients of query, key, value and bias, which may be None."""

    def attend(*states):
        return hopper_attention(settings, *states, plan, seeds)

    out, vjp = jax.vjp(attend, *states)
    return out, vjp(grad)


@pytest.mark.parametrize("rate, has_bias", [(0.0, False), (0.3, True)], ids=str)
def test_arbitrary_patterns(rate, has_bias):
    """Packed, padded and permuted rows; tiles that nothing needs are NaN.

    Dropout is that of the dense reference, given by seed and indices before the sort.
    """
    random = np.random.default_rng(1)
    queries, keys = 13, 21
    query_segment = np.array(
        [[1, 2, 0, 2, 1, 0, 0, 0, 3, 0, 1, 1, 0], [1, 2] * 5 + [1] * 3]
    )
    key_segment = np.array(
        [[1, 0, 0] * 4 + [2] * 4 + [0] * 5, [2] * 5 + [1] * 10 + [2] * 6]
    )
    reach = random.integers((-1, 0), (6, 5), (queries, 2)).T
    # In the second row a query sees at least 9 of 10 keys, or 7 of 11.
    ranks = np.split(random.permutation(11) - 6, [5])
    rank = np.concatenate([ranks[0], random.permutation(10) - 8, ranks[1]])
    rank = np.stack([random.integers(0, 6, keys), rank])
    low = reach - np.array([[2], [100]])
    arrays = query_segment, low, reach, key_segment, rank
    query_segment, low, reach, key_segment, rank = map(np.int32, arrays)
    ranks = [(low, reach)]
    intervals = sorted_intervals(query_segment, ranks, key_segment, rank)
    mask = query_segment[:, :, None] == key_segment[:, None]
    mask &= (key_segment[:, None] > 0) & (rank[:, None] <= reach[:, :, None])
    mask &= low[:, :, None] <= rank[:, None]
    heads, width = 2, 8
    query, grad = (random.normal(size=(2, queries, heads, width)) for _ in range(2))
    key, value = (random.normal(size=(2, keys, heads, width)) for _ in range(2))
    states = [np.float32(x) for x in (query, key, value, grad)]
    seeds = dropout_seeds(jax.random.key(0), 2, heads)
    indices = (np.arange(n, dtype=np.int32) for n in (queries, keys))
    place = np.meshgrid(*indices, indexing="ij")
    dropped = counter_dropout(
        np.float32(1), seeds[:, :, None, None], *(x[None, None] for x in place), rate
    )
    positions = [
        random.integers(0, 12, (2, n), dtype=np.int32) for n in (queries, keys)
    ]
    # Queries of this row attend to tiles of keys near and far: all in the last piece.
    positions[1][1][rank[1] >= 0] += 100
    distance = positions[1][:, None] - positions[0][:, :, None]
    bias = np.float32(random.normal(size=(len(BOUNDS) + 1, heads)))
    bias = bias if has_bias else None
    arguments = *states[:3], bias
    out, grads = dense(*arguments, mask, distance, states[3], np.float64(dropped))
    bounds, interpreter = BOUNDS * has_bias, InterpretGPUParams()
    settings = Settings(Tiles(8, 8), bounds, interpreter, rate)
    plan = make_plan(intervals, keys, settings.tiles, positions if has_bias else None)
    (of_queries,) = plan.bounds.keys
    assert np.any(plan.bounds.full.start < plan.bounds.full.stop)
    assert np.any(of_queries.start > 0) and np.any(plan.bounds.queries.start > 0)
    unseen = plan.key_order.index[0, 8:]  # from the second tile on
    unseeing = plan.query_order.index[0, 8:]
    assert not mask[0, unseeing].any() and not mask[0, :, unseen].any()
    for array, index in zip(states, (unseeing, unseen, unseen, unseeing), strict=True):
        array[0, index] = np.nan
    arguments = *states[:3], bias  # with NaN
    run = jax.jit(lambda states, grad: gradients(settings, states, plan, grad, seeds))
    check(run(arguments, states[3]), (out, grads), 2e-6)


@pytest.mark.parametrize(
    "width",
    # Networks' tests lower the other.
    [pytest.param(width, marks=[pytest.mark.long] * (width == 64)) for width in TILES],
)
def test_they_lower_for_cuda(width):
    """With the layouts of registers and shared memory, which has to suffice."""
    length = 300
    settings, shape = Settings(TILES[width], BOUNDS, dropout=0.1), (2, length, 2, width)
    state = jax.ShapeDtypeStruct(shape, jnp.bfloat16)

    def run(states, grad, segment, seeds):
        intervals = run_intervals(segment, causal=True)
        plan = make_plan(intervals, length, settings.tiles, (segment, segment))
        return gradients(settings, states, plan, grad, seeds)

    segment, seeds = (jax.ShapeDtypeStruct((2, n), jnp.int32) for n in (length, 2))
    bias = jax.ShapeDtypeStruct((len(BOUNDS) + 1, 2), jnp.float32)
    traced = jax.jit(run).trace((*(state,) * 3, bias), state, segment, seeds)
    lowered = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert lowered.count("custom_call @mosaic_gpu_v2") == 3
