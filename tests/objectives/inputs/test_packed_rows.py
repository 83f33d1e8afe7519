"""A piece of a packed row is the example that it would be alone, and no more room."""

# P pieces

import re
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from research import models, objectives
from research.batch import (
    INPUT_ARRAYS,
    NEVER,
    PIECE,
    PIECE_SPECIALS,
    Example,
    piece_columns,
)
from research.data import counter_rng
from research.errors import UserError
from research.objectives.inputs.packed_layout import make_layout
from research.objectives.inputs.packed_rows import PackedRows
from tests.testing.example_batches import keys, texts
from tests.testing.objective_cases import VOCAB, input_prefixes, make_network

LENGTH, LENGTH_ALONE = 96, 128
MAX_RAW = LENGTH - PIECE_SPECIALS
ROWS = [[38, 1, 20, 13], [93], [], [2, 70], [13] * 6, [30, 30, 27]]
"""Tokens of the pieces of each row; their columns are at most LENGTH."""
NUM_PIECES = sum(map(len, ROWS))
KEY = jax.random.key(0)

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
    separators = getattr(objective, "reads_separators", False)
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
def test_the_arrays_are_those_of_the_pieces_alone(name, fields):
    alone, packed = make_batches(objectives.make_objective(name, **fields))
    assert packed.keys() == alone.keys()
    for prefix in input_prefixes(alone):
        one, other = (used_positions(batch, prefix) for batch in (alone, packed))
        assert len(one[0]) == len(other[0])
        for array in ("token", "position", "token_type"):
            each = prefix + array
            np.testing.assert_array_equal(alone[each][one], packed[each][other])
        segment = packed[prefix + "segment"][other]
        piece = one[0]
        owner = np.concatenate([[row] * len(p) for row, p in enumerate(ROWS)])
        np.testing.assert_array_equal(other[0], owner[piece])
        both = np.stack([piece, alone[prefix + "segment"][one], other[0], segment])
        assert len(np.unique(both, axis=1).T) == len(np.unique(both[:2], axis=1).T)
        assert len(np.unique(both, axis=1).T) == len(np.unique(both[2:], axis=1).T)
    side = input_prefixes(alone)[-1]
    weights = (n for n in alone if n.endswith("weight"))
    for weight in weights:
        q = weight.removesuffix("weight")
        one, other = (np.nonzero(batch[weight]) for batch in (alone, packed))
        for array in ("weight", "target", "offset"):
            if q + array in alone and not (array == "offset" and fields):
                found, expected = packed[q + array][other], alone[q + array][one]
                np.testing.assert_array_equal(found, expected)
        for array in ("scored", "left", "right"):
            if q + array in alone:
                places = [
                    (r, b[q + array][r, c])
                    for b, (r, c) in ((alone, one), (packed, other))
                ]
                group = q if q + "token" in alone else side
                for each in ("token", "position"):
                    a, b = (
                        batch[group + each][place]
                        for batch, place in zip((alone, packed), places, strict=True)
                    )
                    np.testing.assert_array_equal(a, b)


def totals(objective, net, params, batch):
    """Term -> (total, weight), and the gradient of sum(coef * total)."""
    batch = {**batch, "example": np.arange(len(batch["weight"]), dtype=np.int32)}

    def score(params):
        terms, _ = models.apply(
            net, params, lambda net: objective.loss(net, batch, KEY)
        )
        return sum(term.coef * term.total for term in terms.values()), terms

    gradient, terms = jax.jit(jax.grad(score, has_aux=True))(params)
    return {name: (t.total, t.weight) for name, t in terms.items()}, gradient


def random_params(objective, net, batch):
    rng = np.random.default_rng(0)
    batch = {**batch, "example": np.arange(len(batch["weight"]), dtype=np.int32)}
    shapes = jax.eval_shape(
        lambda: models.unbox(
            models.init_with_output(
                net, lambda net: objective.loss(net, batch, KEY), KEY
            )[1]
        )
    )
    return jax.tree.map(
        lambda leaf: rng.normal(size=leaf.shape).astype(np.float32) / 5, shapes
    )


LOSS_CASES = [
    ("lm", {}),
    ("mlm", {"unit": "span", "boundary_targets": 4}),
    ("plm", {}),
    ("dae", {}),
    ("mass", {"cross_attention": "unmasked"}),
]


@pytest.mark.parametrize(("name", "fields"), LOSS_CASES)
def test_losses_and_gradients_are_the_sums_over_the_pieces_alone(name, fields):
    objective, net = make_network(name, fields, layers=1, max_length=256)
    alone, packed = make_batches(objective)
    params = random_params(objective, net, alone)
    expected, expected_gradient = totals(objective, net, params, alone)
    found, gradient = totals(PackedRows(objective), net, params, packed)
    assert found.keys() == expected.keys()
    for term, (total, weight) in expected.items():
        np.testing.assert_allclose(found[term][0], total, rtol=1e-5)
        assert found[term][1] == weight > 0
    leaves, others = map(jax.tree.leaves, (expected_gradient, gradient))
    largest = max(np.abs(leaf).max() for leaf in leaves)
    for leaf, other in zip(leaves, others, strict=True):
        np.testing.assert_allclose(leaf, other, atol=2e-5 * largest)


@pytest.mark.parametrize(("name", "fields"), LOSS_CASES)
def test_a_document_changes_nothing_of_the_others(name, fields):
    # Bit for bit: the logits of all other pieces, and the gradient of their loss.
    objective, net = make_network(name, fields, layers=1)
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
    params = random_params(objective, net, batches[0])
    results = []
    for batch in batches:
        assert (batch["weight"][0] > 0).sum() > others[0][0].sum()
        own = batch | {"weight": np.where(others[0], batch["weight"], 0)}
        own["target"] = np.where(others[0], batch["target"], 0)
        results.append(totals(packed, net, params, own))
    jax.tree.map(np.testing.assert_array_equal, *results)
    assert any(np.any(leaf) for leaf in jax.tree.leaves(results[0][1]))
    assert any((batches[0][name] != batches[1][name]).any() for name in batches[0])


MANY_MASKS = {"infill_rate": 0.5, "poisson_lambda": 0.1, "permute_rate": 0.0}
"""Of empty spans, for which a row of a piece's own length has no room."""


@pytest.mark.parametrize(("name", "fields"), [*CASES, ("bart", MANY_MASKS)])
def test_every_packing_fits(name, fields):
    # The rows that need the most of each array: as many pieces of one size as fit.
    objective = PackedRows(objectives.make_objective(name, **fields))
    specs, length = objective.batch_spec(LENGTH), MAX_RAW + 1
    for size in range(1, MAX_RAW + 1):
        count = LENGTH // int(piece_columns(size, MAX_RAW))
        pieces = texts(size, [size] * count, VOCAB, seed=size)
        row = texts(length, [size * count], VOCAB)
        row.token[0, : size * count] = pieces.token.ravel()
        row.flags[0, : size * count] = pieces.flags.ravel()
        row.flags[0, : size * count : size] |= PIECE
        batch = objective.corrupt(row, keys(1, seed=size), VOCAB, LENGTH)
        for prefix in input_prefixes(batch):
            segment = batch[prefix + "segment"]
            assert (segment == np.arange(1, count + 1)[:, None]).any(axis=1).all()
        for array, spec in specs.items():
            assert batch[array].shape == (1, *spec.shape)


def test_a_row_has_little_more_room_than_its_text():
    full = {"lm": 512, "mlm": 512, "electra": 512, "bart": 512, "mass": 512}
    for name, expected in full.items():
        objective = objectives.make_objective(name)
        layout = make_layout(objective, 512)
        assert max(layout.num_keys.values()) == expected
    assert make_layout(objectives.make_objective("mlm"), 512).specs["target"].shape < (
        110,
    )
    t5 = make_layout(objectives.make_objective("dae"), 512).num_keys
    assert t5["encoder_"] < 465 and t5["decoder_"] < 140
    plm = make_layout(objectives.make_objective("plm"), 512)
    num_scored = plm.specs["target"].shape[0]
    assert plm.num_keys[""] == 512 and num_scored < 110
    assert plm.specs["token"].shape == (512 + num_scored,)


def config(name, length=LENGTH, packing="best_fit", **fields):
    return SimpleNamespace(
        objective=ConfigDict({"name": name, **fields}),
        data=SimpleNamespace(length=length, packing=packing),
    )


def test_the_config_says_whether_rows_are_packed():
    packed = objectives.config_objective(config("mlm", rate=0.3))
    plain = objectives.config_objective(config("mlm", packing="none", rate=0.3))
    assert packed == PackedRows(plain)
    assert packed.text_spec(LENGTH).unit == "packed"
    assert packed.rate == 0.3 and packed.score_methods == plain.score_methods
    with pytest.raises(UserError, match="needs at least 4"):
        objectives.config_objective(config("mlm", length=3))
    assert objectives.for_evaluation(packed) is packed


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [
        ("lm", {"mem_len": 8}, "objective lm reads a stream from row to row"),
        (
            "mlm",
            {"format": "segment_pair"},
            "objective mlm reads text of the unit 'pair'",
        ),
        ("mlm", {"format": "full_sentences"}, "reads text of the unit 'sentences'"),
        ("bart", {"text_unit": "passage"}, "reads text of the unit 'passage'"),
        ("unilm", {}, "objective unilm reads text of the unit 'pair'"),
        ("tlm", {}, "objective tlm reads text of the unit 'document'"),
        ("sequence_classification", {}, "objective sequence_classification reads text"),
        ("plm", {"format": "pair"}, "objective plm reads text ahead of its row"),
        ("joint", {}, "objective joint has arrays that cannot be joined (step)"),
        ("infoword", {}, "objective infoword reads text of the unit 'passage'"),
        ("wklm", {}, "objective wklm has arrays that cannot be joined"),
        (
            "mix",
            {"base_objective": "dae", "parts": {"a": {"rate": 0.5}, "b": {}}},
            "objective mix has parts that read texts of different lengths",
        ),
    ],
)
def test_what_cannot_be_packed_is_refused_in_one_line(name, fields, words):
    with pytest.raises(UserError, match=re.escape(words)) as caught:
        objectives.config_objective(config(name, **fields))
    assert "set data.packing=none" in str(caught.value)
    assert "\n" not in str(caught.value)
