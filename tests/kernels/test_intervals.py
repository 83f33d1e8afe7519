"""Intervals of sorted keys, and tiles, say the same as the mask."""

# R rows, B batch, L queries, M keys

import itertools
from collections import defaultdict
from functools import partial

import jax
import numpy as np
import pytest

from research.contract.batch import NEVER, attention_mask, input_names
from research.kernels.intervals import (
    Intervals,
    run_intervals,
    sorted_intervals,
    sorted_queries,
    tile_bounds,
)
from research.networks.shared.dense_attention import AttentionInputs
from research.networks.shared.dense_attention import (
    attention_mask as dense_mask,
)
from tests.testing.objective_cases import (
    CASES,
    input_groups,
    make_batch,
    make_objective,
)

ROWS, QUERIES, KEYS, MEMS, TILE = 64, 12, 20, 6, 4

CASES_OF_RANKS = {
    "one": ("reach",),
    "low": ("low", "reach"),
    "second": ("reach", "low2", "reach2"),
    "both": ("low", "reach", "low2", "reach2"),
}
"""The arrays of queries beside their segments."""


@pytest.fixture(scope="module", params=CASES_OF_RANKS)
def random_rows(request):
    """Arbitrary segments and ranks of queries and other keys, and the mask."""
    random = np.random.default_rng(0)

    def integers(low, high, length):
        return random.integers(low, high, (ROWS, length), dtype=np.int32)

    names = CASES_OF_RANKS[request.param]
    query = {name: integers(-2, 7, QUERIES) for name in names}
    query["segment"] = integers(0, 3, QUERIES)
    key = {"segment": integers(0, 3, KEYS), "rank": integers(-1, 6, KEYS)}
    key["rank"][:, 3], query["segment"][0] = NEVER, 0
    if "low" in query:
        query["low"][1] = np.iinfo(np.int32).min
    mask = query["segment"][:, :, None] == key["segment"][:, None]
    mask &= key["segment"][:, None] > 0
    inside = key["rank"][:, None] <= query["reach"][:, :, None]
    if "low" in query:
        inside &= query["low"][:, :, None] <= key["rank"][:, None]
    if "reach2" in query:
        second = query["low2"][:, :, None] <= key["rank"][:, None]
        inside |= second & (key["rank"][:, None] <= query["reach2"][:, :, None])
    return query, key, mask & inside


def find_intervals(query: dict, key: dict, mems=None) -> Intervals:
    ranks = [(query.get("low"), query["reach"])]
    if "reach2" in query:
        ranks.append((query["low2"], query["reach2"]))
    states = query["segment"], ranks, key["segment"], key["rank"]
    return jax.jit(sorted_intervals)(*states, mems)


def mask_of(intervals: Intervals, num_keys: int) -> np.ndarray:
    """[B, L, M] bool: the keys of each query, in the order of the arrays."""
    mask, index = False, np.arange(num_keys)
    for interval in intervals.each:
        start, stop = (np.array(end)[..., None] for end in interval)
        mask = mask | ((start <= index) & (index < stop))
    if intervals.key_order is None:
        return mask
    place = np.argsort(intervals.key_order, axis=1)
    return np.take_along_axis(mask, place[:, None], axis=2)


def test_the_keys_of_a_query_are_its_intervals(random_rows):
    query, key, mask = random_rows
    intervals = find_intervals(query, key)
    np.testing.assert_array_equal(mask_of(intervals, KEYS), mask)
    assert len(intervals.each) == 1 + ("reach2" in query)


def test_mems_are_one_interval_more(random_rows):
    query, key, mask = random_rows
    mems = np.random.default_rng(1).integers(0, 2, (ROWS, MEMS), dtype=np.int32)
    of_mems = (query["segment"][:, :, None] > 0) & (mems[:, None] > 0)
    intervals = find_intervals(query, key, mems)
    expected = np.concatenate([of_mems, mask], axis=2)
    np.testing.assert_array_equal(mask_of(intervals, MEMS + KEYS), expected)


@pytest.mark.parametrize("window", [2, 9])
def test_a_window_counts_mems_and_keys(window):
    """In causal rows of one or two segments, after mems of which some are padding."""
    random = np.random.default_rng(2)
    mems = random.integers(0, 2, (ROWS, MEMS), dtype=np.int32)
    ends = np.sort(random.integers(1, QUERIES + 1, (ROWS, 2, 1)), axis=1)
    index = np.arange(QUERIES)
    segment = np.where(index < ends[:, 0], 1, 2 * (index < ends[:, 1]))
    group = {"segment": segment.astype(np.int32)}
    rank = np.tile(np.arange(QUERIES, dtype=np.int32), (ROWS, 1))
    intervals = jax.jit(partial(sorted_intervals, window=window))(
        group["segment"], [(None, rank)], group["segment"], rank, mems
    )
    inputs = AttentionInputs(group, group, "causal", mems, window=window)
    expected = np.asarray(dense_mask(inputs))
    np.testing.assert_array_equal(mask_of(intervals, MEMS + QUERIES), expected)
    token = np.concatenate([mems, segment], axis=1) > 0
    place = np.cumsum(token, axis=1)
    near = place[:, MEMS:, None] - place[:, None] <= window
    wide = dense_mask(inputs._replace(window=0))
    np.testing.assert_array_equal(expected, near & np.asarray(wide))


def test_the_first_interval_has_all_that_adjoins_it(random_rows):
    query, key, mask = random_rows
    intervals = find_intervals(query, key)
    sizes = [np.maximum(0, np.array(x.stop - x.start)) for x in intervals.each]
    np.testing.assert_array_equal(sum(sizes), mask.sum(axis=2))
    assert (sizes[0] > 0).sum() == mask.any(axis=2).sum()
    for other in intervals.each[1:]:
        apart = (other.stop < intervals.each[0].start) | (
            other.start > intervals.each[0].stop
        )
        assert np.array(apart | (other.stop <= other.start)).all()


def test_tiles_have_every_pair_and_full_ones_no_other(random_rows):
    intervals = find_intervals(*random_rows[:2])
    order = np.array(jax.jit(sorted_queries)(intervals))
    each = jax.tree.map(
        lambda x: np.take_along_axis(np.array(x), order, axis=1), intervals.each
    )
    bounds = jax.tree.map(
        np.array, tile_bounds(each, num_keys=KEYS, query_tile=TILE, key_tile=TILE)
    )

    def within(interval, index, axis=-1):
        start, stop = (np.expand_dims(end, axis) for end in interval)
        return (start <= index) & (index < stop)

    def in_tiles(mask):
        return mask.reshape(ROWS, QUERIES // TILE, TILE, KEYS // TILE, TILE)

    touched = in_tiles(mask_of(Intervals(each, None), KEYS)).any(axis=(2, 4))
    full = in_tiles(mask_of(Intervals(each[:1], None), KEYS)).all(axis=(2, 4))
    index = np.arange(KEYS // TILE)
    times_needed = sum(within(x, index).astype(int) for x in bounds.keys)
    assert times_needed.max() == 1
    needed = times_needed > 0
    assert not (touched & ~needed).any()
    # A tile of queries that spans two segments may need one that it does not touch.
    assert needed.sum() < 1.25 * touched.sum() < needed.size
    np.testing.assert_array_equal(within(bounds.full, index) & needed, full)
    ends = [end for x in bounds.keys for end in x]
    assert all((a <= b).all() for a, b in itertools.pairwise(ends))
    from_keys = within(bounds.queries, np.arange(QUERIES // TILE)[:, None], axis=1)
    assert not (needed & ~from_keys).any()


def test_sorted_queries_need_fewer_tiles():
    """A random permutation touches half of the tiles if sorted, else all."""
    random, length, tile = np.random.default_rng(0), 256, 16
    num_tiles = (length // tile) ** 2
    rank = random.permutation(length).astype(np.int32)[None]
    segment = np.ones_like(rank)
    intervals = jax.jit(sorted_intervals)(segment, [(None, rank)], segment, rank)

    def fraction(order):
        each = jax.tree.map(lambda x: np.array(x)[:, order], intervals.each)
        bounds = tile_bounds(each, num_keys=length, query_tile=tile, key_tile=tile)
        return sum(np.sum(x.stop - x.start) for x in bounds.keys) / num_tiles

    assert fraction(np.array(sorted_queries(intervals))[0]) == (1 + tile / length) / 2
    assert fraction(np.arange(length)) > 0.9


@pytest.mark.parametrize("causal", [False, True])
def test_tiles_outside_a_window_are_left_out(causal):
    """The mask is that by definition, in packed rows."""
    length, tile, window = 256, 16, 10
    segment = np.repeat(np.array([[1, 2, 0]], np.int32), [100, 150, 6], axis=1)
    intervals = run_intervals(segment, causal=causal, window=window)
    distance = np.arange(length) - np.arange(length)[:, None]
    mask = (segment == segment.T) & (segment > 0) & (np.abs(distance) <= window)
    mask &= (distance <= 0) | (not causal)
    np.testing.assert_array_equal(mask_of(intervals, length)[0], mask)
    tiles = {"num_keys": length, "query_tile": tile, "key_tile": tile}
    (keys,) = tile_bounds(intervals.each, **tiles).keys
    assert np.max(keys.stop - keys.start) == 3 - causal


def test_tiles_between_two_intervals_are_left_out():
    """Of windows and four global tokens, whose ranks are the lowest (Longformer)."""
    length, tile, num_global, window = 512, 16, 4, 8
    index = np.arange(length, dtype=np.int32)[None]
    is_global, one = index < num_global, np.ones_like(index)
    ranks = [
        (
            np.where(is_global, 0, index - window),
            np.where(is_global, length, index + window),
        ),
        (np.zeros_like(index), num_global - one),
    ]
    intervals = jax.jit(sorted_intervals)(one, ranks, one, index)
    each = intervals.each
    bounds = tile_bounds(each, num_keys=length, query_tile=tile, key_tile=tile)
    num_needed = sum(np.sum(x.stop - x.start) for x in bounds.keys)
    num_tiles = length // tile  # the first is of all, the others are of 3 and the first
    assert num_needed <= num_tiles + 4 * (num_tiles - 1)


def test_intervals_of_every_objective_are_its_mask():
    """Those of all rows with the same arrays at once, at one length."""
    groups, length = defaultdict(list), 180
    for case in CASES:
        objective = make_objective(*case.values)
        _, batch = make_batch(objective, 24)
        for group, pattern in input_groups(objective, batch).values():
            for name in {pattern, "general"}:
                groups[name, input_names(group)].append(group)
    assert {"full", "causal", "general", "self"} == {pattern for pattern, _ in groups}
    for (pattern, names), chosen in groups.items():
        rows = {
            name: np.concatenate([fill(group[name], length) for group in chosen])
            for name in names
        }
        if pattern in ("general", "self"):
            intervals = find_intervals(rows, rows)
        else:
            intervals = run_intervals(rows["segment"], causal=pattern == "causal")
        np.testing.assert_array_equal(mask_of(intervals, length), attention_mask(rows))


def fill(array: np.ndarray, length: int) -> np.ndarray:
    return np.pad(array, [(0, 0), (0, length - array.shape[1])])
