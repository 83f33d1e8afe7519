"""A piece of a packed row is the example that it would be alone, and no more room."""

# P pieces

from functools import cache

import jax
import numpy as np
import pytest

from research import networks, objectives
from research.contract.batch import (
    INPUT_ARRAYS,
    INTERVAL_ARRAYS,
    NEVER,
    PIECE,
    PIECE_SPECIALS,
    Example,
    piece_columns,
)
from research.data import counter_rng
from research.objectives.combined.packed_layout import INDEX_ARRAYS
from research.objectives.combined.packed_rows import PackedRows
from tests.testing import fast_key
from tests.testing.example_batches import keys, texts
from tests.testing.interval_patterns import SinkWindow
from tests.testing.objective_cases import VOCAB, input_prefixes, make_network

LENGTH, LENGTH_ALONE = 96, 128
MAX_RAW = LENGTH - PIECE_SPECIALS
ROWS = [[38, 1, 20, 13], [93], [], [2, 70], [13] * 6, [30, 30, 27]]
"""Tokens of the pieces of each row; their columns are at most LENGTH."""
NUM_PIECES = sum(map(len, ROWS))
KEY = fast_key.key(0)

CASES = [
    ("lm", {}),
    ("lm", {"direction": "both", "prefix": "random"}),
    ("fim", {"rate": 1.0}),
    ("mlm", {}),
    ("mlm", {"unit": "span", "boundary_targets": 4}),
    ("plm", {}),
    ("electra", {"rate": 0.2}),
    ("tagging", {"task": "capital"}),
    ("dae", {}),
    ("dae", {"noise_mask": "iid", "mode": "X"}),
    ("dae", {"layout": "prefix"}),
    ("bart", {"insert_rate": 0.2}),
    ("mass", {"cross_attention": "unmasked"}),
    ("mix", {"base_objective": "mlm", "parts": {"a": {"unit": "word"}, "b": {}}}),
]
cases = pytest.mark.parametrize(
    ("name", "fields"), CASES, ids=[f"{name} {fields}" for name, fields in CASES]
)
assert all(piece_columns(row, MAX_RAW).sum() <= LENGTH for row in ROWS)


def pieces_and_rows(separators=False, width=MAX_RAW + 1) -> tuple[Example, Example]:
    """The pieces, a row each, and the packed rows of them.

    separators: whether the pieces have the separators that the rows have, of all
      pieces but those as long as a row.
    width: raw tokens of the pieces' rows.
    """
    sizes = np.concatenate(ROWS).astype(int)
    pieces = texts(width, sizes, VOCAB)
    ends = sizes < MAX_RAW
    pieces.token[np.flatnonzero(ends), sizes[ends]] = VOCAB.eos_id
    packed = texts(MAX_RAW + 1, [0] * len(ROWS), VOCAB)
    flat = zip(pieces.token, pieces.flags, sizes + ends, strict=True)
    for row, parts in enumerate(ROWS):
        for _ in parts:
            token, flags, size = next(flat)
            begin = packed.length[row]
            packed.token[row, begin : begin + size] = token[:size]
            packed.flags[row, begin : begin + size] = flags[:size]
            packed.flags[row, begin] |= PIECE
            packed.length[row] += size
    if separators:
        return pieces._replace(length=(sizes + ends).astype(np.int32)), packed
    pieces.token[np.flatnonzero(ends), sizes[ends]] = VOCAB.pad_id
    return pieces, packed


def piece_keys() -> np.ndarray:
    """[P]: the key of each piece is the one of its row's stream at its number."""
    drawn = counter_rng.random_bits(keys(len(ROWS)), "piece", 6)
    return np.concatenate([drawn[row, : len(parts)] for row, parts in enumerate(ROWS)])


def make_batches(objective):
    """The batch of the pieces alone, in rows of any length, and of the packed rows."""
    separators = objective.reads_separators
    width = objective.text_spec(LENGTH_ALONE).width
    pieces, packed = pieces_and_rows(separators, width)
    alone = objective.corrupt(pieces, piece_keys(), VOCAB, LENGTH_ALONE)
    return alone, PackedRows(objective).corrupt(packed, keys(len(ROWS)), VOCAB, LENGTH)


def used_positions(batch, prefix):
    """(row, position) of all that is no padding: the keys row by row, then queries."""
    group = {name: batch[prefix + name] for name in INPUT_ARRAYS}
    visible, query = group["segment"] > 0, group["rank"] == NEVER
    places = [np.argwhere(visible & kind) for kind in (~query, query)]
    return tuple(np.concatenate(places).T)


@cases
def test_arrays_of_positions_are_those_of_the_pieces_alone(name, fields):
    alone, packed = make_batches(objectives.make_objective(name, **fields))
    assert packed.keys() == alone.keys()
    row_of_piece = np.repeat(np.arange(len(ROWS)), [len(parts) for parts in ROWS])
    for prefix in input_prefixes(alone):
        one, other = (used_positions(batch, prefix) for batch in (alone, packed))
        np.testing.assert_array_equal(row_of_piece[one[0]], other[0])
        for array in ("token", "position", "token_type"):
            found, expected = packed[prefix + array][other], alone[prefix + array][one]
            np.testing.assert_array_equal(found, expected)
        segments = [batch[prefix + "segment"] for batch in (alone, packed)]
        each = np.stack([one[0], segments[0][one], other[0], segments[1][other]])
        num_segments = len(np.unique(each, axis=1).T)
        assert num_segments == len(np.unique(each[:2], axis=1).T)
        assert num_segments == len(np.unique(each[2:], axis=1).T)


@cases
def test_arrays_of_what_is_scored_are_those_of_the_pieces_alone(name, fields):
    alone, packed = make_batches(objectives.make_objective(name, **fields))
    side = input_prefixes(alone)[-1]
    for weight in (array for array in alone if array.endswith("weight")):
        prefix = weight.removesuffix("weight")
        group = prefix if prefix + "token" in alone else side
        slots = [np.nonzero(batch[weight]) for batch in (alone, packed)]
        both = list(zip((alone, packed), slots, strict=True))
        for array in ("weight", "target"):
            np.testing.assert_array_equal(*(b[prefix + array][at] for b, at in both))
        if prefix + "offset" in alone:  # a large one, of whatever size, is for no span
            offsets = [np.minimum(b[prefix + "offset"][at], 16) for b, at in both]
            np.testing.assert_array_equal(*offsets)
        for array in {prefix + name for name in INDEX_ARRAYS} & alone.keys():
            places = [(at[0], batch[array][at]) for batch, at in both]
            for name in ("token", "position"):
                found = (
                    b[group + name][p] for (b, _), p in zip(both, places, strict=True)
                )
                np.testing.assert_array_equal(*found)


def make_totals(objective, net):
    """A function of parameters and a batch: term -> (total, weight), and the gradient
    of sum(coef * total)."""

    def score(params, batch):
        terms, _ = networks.apply(
            net, params, lambda net: objective.loss(net, batch, KEY)
        )
        return sum(term.coef * term.total for term in terms.values()), terms

    grad = jax.jit(jax.grad(score, has_aux=True))

    def totals(params, batch):
        row = np.arange(len(batch["weight"]), dtype=np.int32)
        gradient, terms = grad(params, {**batch, "example": row})
        return {name: (t.total, t.weight) for name, t in terms.items()}, gradient

    return totals


def random_params(objective, net, batch):
    rng = np.random.default_rng(0)
    batch = {**batch, "example": np.arange(len(batch["weight"]), dtype=np.int32)}
    shapes = jax.eval_shape(
        lambda: networks.unbox(
            networks.init_with_output(
                net, lambda net: objective.loss(net, batch, KEY), KEY
            )[1]
        )
    )
    return jax.tree.map(
        lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 5, shapes
    )


LOSS_CASES = {
    "lm": {},
    "mlm": {"unit": "span", "boundary_targets": 4},
    "plm": {},
    "dae": {},
    "mass": {"cross_attention": "unmasked"},
}


@cache
def loss_case(name):
    """An objective, its network, random parameters, `make_totals` of packed rows."""
    objective, net = make_network(name, LOSS_CASES[name], layers=1, max_length=256)
    params = random_params(objective, net, make_batches(objective)[0])
    return objective, net, params, make_totals(PackedRows(objective), net)


@pytest.mark.parametrize("name", LOSS_CASES)
def test_losses_and_gradients_are_the_sums_over_the_pieces_alone(name):
    objective, net, params, totals_of_packed = loss_case(name)
    alone, packed = make_batches(objective)
    expected, expected_gradient = make_totals(objective, net)(params, alone)
    found, gradient = totals_of_packed(params, packed)
    assert found.keys() == expected.keys()
    for term, (total, weight) in expected.items():
        np.testing.assert_allclose(found[term][0], total, rtol=1e-5)
        assert found[term][1] == weight > 0
    leaves, others = map(jax.tree.leaves, (expected_gradient, gradient))
    largest = max(np.abs(leaf).max() for leaf in leaves)
    for leaf, other in zip(leaves, others, strict=True):
        np.testing.assert_allclose(leaf, other, atol=2e-5 * largest)


@pytest.mark.parametrize("name", LOSS_CASES)
def test_a_document_changes_nothing_of_the_others(name):
    # Bit for bit: the logits of all other pieces, and the gradient of their loss.
    objective, _, params, totals_of_packed = loss_case(name)
    packed = PackedRows(objective)
    one, text = pieces_and_rows()[1], pieces_and_rows()[1]
    begin = np.flatnonzero(one.flags[0] & PIECE)
    changed = slice(begin[2], begin[3] - 1)
    ordinary = VOCAB.ordinary_ids
    text.token[0, changed] = ordinary[(text.token[0, changed] + 7) % len(ordinary)]
    batches = [packed.corrupt(e, keys(len(ROWS)), VOCAB, LENGTH) for e in (one, text)]
    side = input_prefixes(batches[0])[-1]
    others = []
    for batch in batches:
        segment = batch[side + "segment"]
        at = batch.get("scored", np.tile(np.arange(segment.shape[1]), (len(ROWS), 1)))
        other = np.take_along_axis(segment, at, axis=1) != 3
        other[1:] = True
        others.append(other & (batch["weight"] > 0))
    np.testing.assert_array_equal(*others)
    results = []
    for batch in batches:
        assert (batch["weight"][0] > 0).sum() > others[0][0].sum()
        own = batch | {"weight": np.where(others[0], batch["weight"], 0)}
        own["target"] = np.where(others[0], batch["target"], 0)
        results.append(totals_of_packed(params, own))
    jax.tree.map(np.testing.assert_array_equal, *results)
    assert any(np.any(leaf) for leaf in jax.tree.leaves(results[0][1]))
    assert any((batches[0][name] != batches[1][name]).any() for name in batches[0])


def test_intervals_of_ranks_are_those_of_the_pieces_alone():
    """The arrays, and with them loss and gradient."""
    objective = SinkWindow()
    options = make_network("lm", {}, layers=1, max_length=256)[1].options
    net = networks.build(options, objective.needs(VOCAB), VOCAB)
    alone, packed = make_batches(objective)
    one, other = (used_positions(batch, "") for batch in (alone, packed))
    for name in INTERVAL_ARRAYS:
        np.testing.assert_array_equal(packed[name][other], alone[name][one])
    without = {k: v for k, v in packed.items() if k not in INTERVAL_ARRAYS}
    params = random_params(objective, net, alone)
    expected, expected_gradient = make_totals(objective, net)(params, alone)
    found, gradient = make_totals(PackedRows(objective), net)(params, packed)
    causal = make_totals(PackedRows(objective), net)(params, without)[0]
    np.testing.assert_allclose(found["lm"], expected["lm"], rtol=1e-5)
    assert np.abs(found["lm"][0] / causal["lm"][0] - 1) > 1e-4
    leaves, others = map(jax.tree.leaves, (expected_gradient, gradient))
    largest = max(np.abs(leaf).max() for leaf in leaves)
    for leaf, other in zip(leaves, others, strict=True):
        np.testing.assert_allclose(leaf, other, atol=2e-5 * largest)
