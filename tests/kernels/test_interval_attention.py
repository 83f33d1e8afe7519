"""The interval kernel equals dense attention in float64, in value and gradient.

The kernels are interpreted on a CPU, with tiles that the lengths do not divide.
"""

# B batch, L queries, M keys, N mems, H heads, G key heads, K head width, P pieces

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research.contract.batch import NEVER
from research.kernels.counter_dropout import counter_dropout, dropout_seeds
from research.kernels.interval_attention import interval_attention
from research.kernels.intervals import run_intervals, sorted_intervals
from research.kernels.plan import Settings, Tiles, make_plan
from research.kernels.query_grid import query_specs
from research.kernels.tile import Inputs, make_scalars

BOUNDS = (-5, -1, 0, 1, 7)
"""Distances at which the pieces of the bias begin."""


def dense(query, key, value, bias, mask, distance, grad, dropped=1.0, relative=None):
    """Output and gradients of query, key, value, bias and relative terms, in NumPy."""
    group = query.shape[2] // key.shape[2]
    arrays = (np.float64(x) for x in (query, key, value, grad))
    query, key, value, grad = (np.moveaxis(x, 2, 1) for x in arrays)
    key, value = (np.repeat(x, group, axis=1) for x in (key, value))
    logits = query @ np.swapaxes(key, 2, 3)
    piece = np.searchsorted(BOUNDS, distance, side="right")
    if bias is not None:
        logits += np.moveaxis(np.float64(bias)[piece], 3, 1)
    if relative is not None:
        query_rel, key_rel = map(np.float64, relative)
        logits += np.einsum("blhf,bmf->bhlm", query_rel, key_rel)
    mask = mask[:, None]
    largest = np.max(logits, axis=-1, keepdims=True, where=mask, initial=-1e9)
    exp = np.where(mask, np.exp(np.minimum(logits - largest, 0)), 0)
    probability = exp / np.maximum(exp.sum(-1, keepdims=True), 1e-300)
    out = (probability * dropped) @ value
    grad_probability = dropped * (grad @ np.swapaxes(value, 2, 3))
    mean = np.sum(probability * grad_probability, axis=-1, keepdims=True)
    grad_logits = probability * (grad_probability - mean)

    def by_key_head(x):
        return x.reshape(x.shape[0], -1, group, *x.shape[2:]).sum(axis=2)

    grads = [
        grad_logits @ key,
        by_key_head(np.swapaxes(grad_logits, 2, 3) @ query),
        by_key_head(np.swapaxes(probability * dropped, 2, 3) @ grad),
    ]
    out, *grads = (np.moveaxis(x, 1, 2) for x in (out, *grads))
    if bias is not None:
        each = np.moveaxis(grad_logits, 1, 3)
        sums = [each[piece == p].sum(axis=0) for p in range(len(bias))]
        grads.append(np.stack(sums))
    if relative is not None:
        grads.append(np.einsum("bhlm,bmf->blhf", grad_logits, key_rel))
    return out, grads


def ours(settings, query, key, value, bias, plan, grad, seeds=None, relative=None):
    """Output and gradients of the kernels."""
    query_rel, key_rel = relative or (None, None)
    arrays = [query, key, value, bias, query_rel]

    def attend(query, key, value, bias, query_rel):
        states = query, key, value, bias, plan, seeds
        return interval_attention(settings, *states, query_rel, key_rel)

    def run(arrays, grad):
        out, vjp = jax.vjp(attend, *arrays)
        return out, [x for x in vjp(grad) if x is not None]

    return jax.jit(run)(arrays, grad)


def states(random, *shape):
    return random.normal(size=shape).astype(np.float32)


def check(actual, expected, tolerance):
    """Each array equals the reference up to a fraction of its largest entry."""
    for x, y in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        assert x.shape == y.shape
        error = np.max(np.abs(np.float64(x) - y))
        assert error <= tolerance * np.abs(y).max()


@pytest.mark.parametrize(
    "dtype, tolerance, rate",
    [("float32", 2e-6, 0.3), ("bfloat16", 2e-2, 0.0)],
    ids=str,
)
def test_arbitrary_patterns_with_a_bias_and_grouped_heads(dtype, tolerance, rate):
    """Two heads of queries share keys; rows without keys, segments out of order.

    Dropout is that of the dense reference, given by seed and indices before the sort.
    """
    random = np.random.default_rng(1)
    rows, queries, keys, width = 2, 13, 21, 4
    query_segment, key_segment = (
        random.integers(0, 3, (rows, n), dtype=np.int32) for n in (queries, keys)
    )
    reach = random.integers(-2, 6, (rows, queries), dtype=np.int32)
    rank = random.integers(-1, 6, (rows, keys), dtype=np.int32)
    rank[:, 2], query_segment[0, :3] = NEVER, 0
    query_segment[1] = key_segment[1] = 1
    positions = [
        random.integers(0, 12, (rows, n), dtype=np.int32) for n in (queries, keys)
    ]
    # Queries of this row attend to tiles of keys near and far: all in the last piece.
    positions[1][1][rank[1] >= 2] += 100
    mask = query_segment[:, :, None] == key_segment[:, None]
    mask &= (key_segment[:, None] > 0) & (rank[:, None] <= reach[:, :, None])
    distance = positions[1][:, None] - positions[0][:, :, None]
    query, grad = (states(random, rows, queries, 4, width) for _ in range(2))
    key, value = (states(random, rows, keys, 2, width) for _ in range(2))
    query, key, value, grad = (
        np.array(x.astype(jnp.dtype(dtype))) for x in (query, key, value, grad)
    )
    bias = states(random, len(BOUNDS) + 1, 4)
    ranks = [(None, reach)]
    intervals = sorted_intervals(query_segment, ranks, key_segment, rank)
    settings = Settings(Tiles(8, 8), BOUNDS, interpret=True, dropout=rate)
    plan = make_plan(intervals, keys, settings.tiles, tuple(positions))
    seeds = dropout_seeds(jax.random.key(0), rows, 4)
    indices = (np.arange(n, dtype=np.int32) for n in (queries, keys))
    pairs = np.meshgrid(*indices, indexing="ij")
    place = seeds[:, :, None, None], *(x[None, None] for x in pairs)
    dropped = counter_dropout(np.float32(1), *place, rate)
    arguments = query, key, value, bias
    out, grads = ours(settings, *arguments, plan, grad, seeds if rate else None)
    expected = dense(*arguments, mask, distance, grad, np.float64(dropped))
    check((out, grads), expected, tolerance)
    hidden = ~mask.any(axis=2)
    assert hidden.any()
    assert not np.float32(out)[hidden].any() and not np.float32(grads[0])[hidden].any()


@pytest.mark.parametrize("causal", [True, False])
def test_runs_of_segments_need_no_sort(causal):
    random, length = np.random.default_rng(2), 21
    segment = np.array([[2] * 9 + [1] * 8 + [0] * 4, [1] * length], np.int32)
    index = np.arange(length)
    mask = (segment[:, :, None] == segment[:, None]) & (segment[:, None] > 0)
    if causal:
        mask &= index <= index[:, None]
    query, key, value, grad = (states(random, 2, length, 2, 8) for _ in range(4))
    settings = Settings(Tiles(8, 8), interpret=True)
    intervals = run_intervals(segment, causal=causal)
    assert intervals.key_order is None
    plan = make_plan(intervals, length, settings.tiles)
    expected = dense(query, key, value, None, mask, np.zeros(mask.shape), grad)
    check(ours(settings, query, key, value, None, plan, grad), expected, 2e-6)


@pytest.mark.parametrize(
    "num_mems, num_ranks", [(0, 1), (11, 1), (0, 2), (11, 2)], ids=str
)
def test_relative_terms_mems_and_two_intervals_of_ranks(num_mems, num_ranks):
    """Segments that adjoin the mems and others; the mems of a row have holes.

    With two intervals of ranks each has a lowest one; some are empty, some overlap.
    """
    random = np.random.default_rng(4)
    rows, queries, keys = 3, 13, 21
    segment = np.repeat(np.array([[1, 2, 3]], np.int32), 7, axis=1)
    key_segment = np.concatenate([segment, np.ones_like(segment), 2 - segment % 2])
    query_segment = key_segment[:, 4 : 4 + queries].copy()
    query_segment[1, 5:8] = 0
    rank = random.integers(0, 6, (rows, keys), dtype=np.int32)
    reach = random.integers(-1, 6, (rows, queries), dtype=np.int32)
    ranks = [(None, reach)]
    inside = rank[:, None] <= reach[:, :, None]
    if num_ranks == 2:
        low, low2 = (reach - random.integers(-1, 3, reach.shape) for _ in range(2))
        reach2 = np.flip(reach, axis=1)
        low2 = np.flip(low2, axis=1)
        ranks = [(low, reach), (low2, reach2)]
        inside = np.any(
            [
                (low[:, :, None] <= rank[:, None]) & (rank[:, None] <= high[:, :, None])
                for low, high in ranks
            ],
            axis=0,
        )
    mask = (query_segment[:, :, None] == key_segment[:, None]) & inside
    mems_segment = random.integers(0, 2, (rows, num_mems), dtype=np.int32)
    of_mems = (query_segment[:, :, None] > 0) & (mems_segment[:, None] > 0)
    mask = np.concatenate([of_mems, mask], axis=2)
    mems = mems_segment if num_mems else None
    intervals = sorted_intervals(query_segment, ranks, key_segment, rank, mems)
    assert len(intervals.each) == num_ranks + (num_mems > 0)
    num_keys = num_mems + keys
    query = states(random, rows, queries, 2, 6)
    key, value = (states(random, rows, num_keys, 2, n) for n in (6, 4))
    grad = states(random, rows, queries, 2, 4)
    relative = states(random, rows, queries, 2, 10), states(random, rows, num_keys, 10)
    settings = Settings(Tiles(8, 8), interpret=True)
    plan = make_plan(intervals, num_keys, settings.tiles)
    out, grads = ours(settings, query, key, value, None, plan, grad, relative=relative)
    arguments = query, key, value, None, mask, np.zeros(mask.shape), grad
    check((out, grads), dense(*arguments, relative=relative), 2e-6)


def test_tiles_that_no_query_attends_to_are_not_read():
    """Keys and values of NaN in them change nothing, forward and backward."""
    random, length = np.random.default_rng(3), 16
    segment = np.repeat(np.array([[1, 2]], np.int32), 8, axis=1)
    query, key, value, grad = (states(random, 1, length, 1, 8) for _ in range(4))
    key[:, 8:] = value[:, 8:] = np.nan
    settings = Settings(Tiles(8, 8), interpret=True)
    intervals = run_intervals(segment, causal=False)
    plan = make_plan(intervals, length, settings.tiles)
    out, grads = ours(settings, query, key, value, None, plan, grad)
    for array in (out, *grads):
        assert np.isfinite(array[:, :8]).all()
        assert np.isnan(array[:, 8:]).all()


def test_tiles_between_two_intervals_are_not_read():
    """Keys and values of NaN in them change nothing, forward and backward."""
    random, length = np.random.default_rng(3), 24
    index = np.arange(length, dtype=np.int32)[None]
    segment = np.ones_like(index)
    low, reach, low2, reach2 = (np.full_like(index, end) for end in (1, 6, 17, 23))
    query, key, value, grad = (states(random, 1, length, 1, 8) for _ in range(4))
    mask = ((low <= index) & (index <= reach)) | ((low2 <= index) & (index <= reach2))
    mask = np.repeat(mask[:, None], length, axis=1)
    expected = dense(query, key, value, None, mask, np.zeros(mask.shape), grad)
    key[:, 8:16] = value[:, 8:16] = np.nan
    settings = Settings(Tiles(8, 8), interpret=True)
    ranks = [(low, reach), (low2, reach2)]
    intervals = sorted_intervals(segment, ranks, segment, index)
    plan = make_plan(intervals, length, settings.tiles)
    check(ours(settings, query, key, value, None, plan, grad), expected, 2e-6)
    arrays = Inputs(*(np.moveaxis(x, 1, 3) for x in (query, key, value)), plan.interval)
    spec, scalars = query_specs(arrays, settings).key, make_scalars(plan, None)
    copied = [int(spec.index_map(0, 0, 0, step, scalars)[3]) for step in range(3)]
    assert copied == [0, 2, 2]


def test_a_fraction_of_pairs_is_dropped_whatever_the_row_head_query_and_key():
    """Within five standard deviations: of all, of each query and key, of two heads."""
    rate, n = 0.2, 256
    seeds = dropout_seeds(jax.random.key(1), 1, 2)[:, :, None, None]
    index = np.arange(n, dtype=np.int32)[None, None]
    place = seeds, index[..., None], index[:, :, None]
    factor = counter_dropout(np.float32(1), *place, rate)
    kept = np.asarray(factor)[0] > 0
    assert np.allclose(factor, np.where(kept, 1 / (1 - rate), 0))

    def check_mean(sample, mean, size):
        spread = (mean * (1 - mean) / size) ** 0.5
        assert np.abs(sample - mean).max() < 5 * spread

    for axis, size in ((None, 2 * n * n), (1, n), (2, n)):
        check_mean(kept.mean(axis), 1 - rate, size)
    both = kept & np.roll(kept, 1, axis=2), kept & np.roll(kept, 1, axis=1)
    for pairs in (*both, kept[0] & kept[1]):
        check_mean(pairs.mean(), (1 - rate) ** 2, pairs.size)
