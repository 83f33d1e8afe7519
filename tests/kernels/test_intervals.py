"""Intervals of sorted keys, and tiles, say the same as the mask."""

# R rows, B batch, L queries, M keys

import jax
import numpy as np
import pytest

from research.batch import NEVER, attention_mask
from research.kernels.intervals import (
    Intervals,
    run_intervals,
    sorted_intervals,
    sorted_queries,
    tile_bounds,
)
from tests.testing.objective_cases import (
    CASES,
    input_groups,
    make_batch,
    make_objective,
)

ROWS, QUERIES, KEYS, TILE = 64, 12, 20, 4


@pytest.fixture(scope="module")
def random_rows():
    """Arbitrary segments, ranks and reaches of queries and other keys, and the mask."""
    random = np.random.default_rng(0)

    def integers(low, high, length):
        return random.integers(low, high, (ROWS, length), dtype=np.int32)

    query_segment, reach = integers(0, 3, QUERIES), integers(-2, 7, QUERIES)
    key_segment, rank = integers(0, 3, KEYS), integers(-1, 6, KEYS)
    rank[:, 3], query_segment[0] = NEVER, 0
    mask = query_segment[:, :, None] == key_segment[:, None]
    mask &= (key_segment[:, None] > 0) & (rank[:, None] <= reach[:, :, None])
    intervals = jax.jit(sorted_intervals)(query_segment, reach, key_segment, rank)
    return intervals, mask


def mask_of(intervals: Intervals, num_keys: int) -> np.ndarray:
    """[B, L, M] bool: the keys in each query's interval, in the order of the arrays."""
    start, stop = np.array(intervals.start), np.array(intervals.stop)
    index = np.arange(num_keys)
    mask = (start[..., None] <= index) & (index < stop[..., None])
    if intervals.key_order is None:
        return mask
    place = np.argsort(intervals.key_order, axis=1)
    return np.take_along_axis(mask, place[:, None], axis=2)


def test_the_keys_of_a_query_are_an_interval(random_rows):
    intervals, mask = random_rows
    np.testing.assert_array_equal(mask_of(intervals, KEYS), mask)


def test_tiles_have_every_pair_and_full_ones_no_other(random_rows):
    intervals, _ = random_rows
    order = np.array(jax.jit(sorted_queries)(intervals))
    start, stop = (
        np.take_along_axis(np.array(x), order, axis=1)
        for x in (intervals.start, intervals.stop)
    )
    bounds = jax.tree.map(
        np.array,
        tile_bounds(start, stop, num_keys=KEYS, query_tile=TILE, key_tile=TILE),
    )
    in_order = mask_of(Intervals(start, stop, None), KEYS)
    tiles = in_order.reshape(ROWS, QUERIES // TILE, TILE, KEYS // TILE, TILE)
    touched, full = tiles.any(axis=(2, 4)), tiles.all(axis=(2, 4))
    index = np.arange(KEYS // TILE)
    needed = (bounds.start[..., None] <= index) & (index < bounds.stop[..., None])
    assert not (touched & ~needed).any()
    # A tile of queries that spans two segments may need one that it does not touch.
    assert needed.sum() < 1.2 * touched.sum() < 0.95 * needed.size
    called_full = bounds.full_start[..., None] <= index
    called_full &= index < bounds.full_stop[..., None]
    np.testing.assert_array_equal(called_full & needed, full)
    index = np.arange(QUERIES // TILE)[:, None]
    from_keys = bounds.query_start[:, None] <= index
    from_keys &= index < bounds.query_stop[:, None]
    assert not (needed & ~from_keys).any()


def test_sorted_queries_need_fewer_tiles():
    """A random permutation touches half of the tiles if sorted, else all."""
    random, length, tile = np.random.default_rng(0), 256, 16
    rank = random.permutation(length).astype(np.int32)[None]
    segment = np.ones_like(rank)
    intervals = jax.jit(sorted_intervals)(segment, rank, segment, rank)

    def fraction(order):
        ends = (np.array(x)[:, order] for x in (intervals.start, intervals.stop))
        bounds = tile_bounds(*ends, num_keys=length, query_tile=tile, key_tile=tile)
        return np.sum(bounds.stop - bounds.start) / (length / tile) ** 2

    assert fraction(np.array(sorted_queries(intervals))[0]) == (1 + tile / length) / 2
    assert fraction(np.arange(length)) > 0.9


def test_intervals_of_every_objective_are_its_mask():
    """Those of all objectives' rows at once, at one length."""
    groups, length = {"full": [], "causal": [], "general": []}, 180
    for case in CASES:
        objective = make_objective(*case.values)
        _, batch = make_batch(objective, 24)
        for group, pattern in input_groups(objective, batch).values():
            for name in {pattern, "general"}:
                groups[name].append(group)
    for pattern, chosen in groups.items():
        rows = {
            name: np.concatenate([fill(group[name], length) for group in chosen])
            for name in ("segment", "rank", "reach")
        }
        if pattern == "general":
            both = (rows["segment"], rows["reach"]), (rows["segment"], rows["rank"])
            intervals = jax.jit(sorted_intervals)(*both[0], *both[1])
        else:
            intervals = run_intervals(rows["segment"], causal=pattern == "causal")
        np.testing.assert_array_equal(mask_of(intervals, length), attention_mask(rows))


def fill(array: np.ndarray, length: int) -> np.ndarray:
    return np.pad(array, [(0, 0), (0, length - array.shape[1])])
