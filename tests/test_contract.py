"""What every objective promises; the modules are found by listing the folder."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from texts import keys, rows, symbols, texts
from variants import CASES, every

from research import models, objectives
from research.batch import take, visible

OF = symbols(size=96, sentinels=40)
OPTIONS = models.Options(layers=2, width=32, heads=2, feedforward=64, max_length=64)
LENGTH = 24
KEY = jax.random.key(0)

trained = pytest.mark.parametrize(
    ("name", "fields"),
    [case for case in CASES if case.values[0] == "classify" or not case.values[1]],
)
lengths = pytest.mark.parametrize("length", [12, 37, 128])

ANSWERS = {"label": len(OF.labels), "discriminator": 2}
"""How many answers a term chooses from; the others: the vocabulary."""


def make(objective, length, num_raw=None, seed=0):
    """An example and its batch; `num_raw`: tokens of each row, by default various."""
    raw = objective.reads(length).length
    if num_raw is None:
        num_raw = [raw, 0, raw, 1, raw // 2, 2, raw - 1, raw]
    example = texts(raw, num_raw, OF, separators=0.05, seed=seed)
    return example, objective.corrupt(example, keys(len(num_raw)), OF, length)


def groups(objective, batch):
    """Of each input of a network: its arrays, and the pattern they promise."""
    if "token" in batch:
        return [(take(batch), objective.pattern)]
    sides = {"encoder_": "full", "decoder_": "causal"}
    return [
        (take(batch, side), pattern)
        for side, pattern in sides.items()
        if f"{side}token" in batch
    ]


def weights(batch) -> list[np.ndarray]:
    return [batch[name] for name in ("weight", "label_weight") if name in batch]


@every
@lengths
def test_arrays_are_as_announced(name, fields, length):
    objective = objectives.load(name, **fields)
    _, batch = make(objective, length)
    specs = objective.arrays(length)
    assert batch.keys() == specs.keys()
    for array, (shape, dtype) in specs.items():
        assert batch[array].shape == (8, *shape), array
        assert batch[array].dtype == dtype, array


@every
@lengths
def test_a_row_is_a_function_of_its_text_and_key(name, fields, length):
    objective = objectives.load(name, **fields)
    example, whole = make(objective, length)
    before = [array.copy() for array in example]
    for part in (slice(0, 1), slice(3, 8), slice(None, None, -1)):
        cut = objective.corrupt(rows(example, part), keys(8)[part], OF, length)
        for array in whole:
            np.testing.assert_array_equal(cut[array], whole[array][part], err_msg=array)
    for array, copy in zip(example, before, strict=True):
        np.testing.assert_array_equal(array, copy)  # the text itself is untouched


@every
def test_another_key_hides_something_else(name, fields):
    objective = objectives.load(name, **fields)
    example, batch = make(objective, 128)
    other = objective.corrupt(example, keys(8, seed=1), OF, 128)
    same = all(np.array_equal(batch[array], other[array]) for array in batch)
    assert same == (name in ("lm", "classify"))  # those hide nothing at random


@every
@lengths
def test_padding_sees_nothing_and_weighs_nothing(name, fields, length):
    objective = objectives.load(name, **fields)
    example, batch = make(objective, length)
    empty = example.length == 0
    for group, _ in groups(objective, batch):
        here = group["segment"] > 0
        assert not here[empty].any() and here[~empty].any(axis=1).all()
        assert (group["token"][~here] == OF.pad).all()
        sees = visible(group)
        assert not sees[~here].any() and not sees.swapaxes(1, 2)[~here].any()
        assert ((group["token"] >= 0) & (group["token"] < OF.size)).all()
        assert ((group["position"] >= 0) & (group["position"] < length)).all()
    for weight in weights(batch):
        assert not weight[empty].any() and weight.any()


@every
@lengths
def test_scored_places_are_places_of_the_text(name, fields, length):
    objective = objectives.load(name, **fields)
    _, batch = make(objective, length)
    group, _ = groups(objective, batch)[-1]
    weight = batch.get("weight")
    if weight is None:
        weight = batch["label_weight"][:, None]
    else:
        assert ((batch["target"] >= 0) & (batch["target"] < OF.size)).all()
        assert not batch.get("scored", weight)[weight == 0].any()
    place = np.arange(weight.shape[1])[None].repeat(len(weight), axis=0)
    place = batch.get("scored", place)
    segment = np.take_along_axis(group["segment"], place, axis=1)
    assert (segment[weight > 0] > 0).all()


@every
@lengths
def test_the_pattern_is_kept(name, fields, length):
    objective = objectives.load(name, **fields)
    _, batch = make(objective, length)
    for group, pattern in groups(objective, batch):
        segment = group["segment"]
        same = (segment[:, :, None] == segment[:, None]) & (segment[:, None] > 0)
        place = np.arange(segment.shape[1])
        if pattern == "causal":
            same &= place[:, None] >= place
        if pattern != "general":
            np.testing.assert_array_equal(visible(group), same)
        else:
            assert not (visible(group) & ~same).any()


@every
def test_its_fields_are_plain_values(name, fields):
    objective = objectives.load(name, **fields)
    assert dataclasses.is_dataclass(objective) and hash(objective) is not None
    for field in dataclasses.fields(objective):
        assert isinstance(field.default, str | int | float)


@cache
def scorer(name, fields):
    """(batch, only_empty, scale) -> terms, and the gradient of sum(coef * total).

    only_empty: of the terms whose weight is 0 alone. scale: of the parameters.
    """
    objective = objectives.load(name, **dict(fields))
    network = objective.network(OPTIONS, OF)

    def terms(params, batch):
        return models.apply(
            network, params, lambda net: objective.loss(net, batch, KEY)
        )

    @jax.jit
    def init(batch):
        return models.unbox(
            models.init(network, lambda net: objective.loss(net, batch, KEY), KEY)
        )

    params = init(on_device(make(objective, LENGTH)[1]))

    @jax.jit
    def score(batch, only_empty, scale):
        def total(params):
            scored, carry = terms(params, batch)
            assert carry == ()
            parts = [
                jnp.where(only_empty & (term.weight > 0), 0.0, term.coef * term.total)
                for term in scored.values()
            ]
            return sum(parts), scored

        scaled = jax.tree.map(lambda leaf: scale * leaf, params)
        gradient, scored = jax.grad(total, has_aux=True)(scaled)
        return scored, ravel_pytree(gradient)[0]

    def run(batch, *, only_empty=False, scale=1.0):
        return jax.device_get(score(on_device(batch), only_empty, scale))

    return run


def on_device(batch) -> dict:
    row = np.arange(len(next(iter(batch.values()))), dtype=np.int32)
    return jax.tree.map(jnp.asarray, batch | {"example": row})


def scored(name, fields, num_raw=None):
    """A scorer, and a batch for it."""
    objective = objectives.load(name, **fields)
    _, batch = make(objective, LENGTH, num_raw)
    return scorer(name, tuple(fields.items())), batch


@trained
def test_an_untrained_loss_is_that_of_a_guess(name, fields):
    run, batch = scored(name, fields)
    terms, gradient = run(batch)
    assert np.isfinite(gradient).all() and gradient.any()
    for term, (total, weight, coef) in terms.items():
        if coef:
            guess = np.log(ANSWERS.get(term, OF.size))
            assert total / weight == pytest.approx(guess, abs=0.1), term


@trained
def test_what_weighs_nothing_teaches_nothing(name, fields):
    run, batch = scored(name, fields)
    for array in ("weight", "label_weight"):
        if array in batch:
            batch[array] = np.zeros_like(batch[array])
    terms, gradient = run(batch, only_empty=True)
    assert not gradient.any()
    assert any(term.weight == 0 for term in terms.values() if term.coef)
    assert all(term.total == 0 for term in terms.values() if term.weight == 0)


@trained
def test_empty_rows_teach_nothing(name, fields):
    run, batch = scored(name, fields, num_raw=[0] * 8)
    terms, gradient = run(batch)
    assert not gradient.any()
    assert all(term.total == term.weight == 0 for term in terms.values())


@trained
def test_sums_of_parts_are_sums_of_the_whole(name, fields):
    # Rows of the other part are made empty, so that shapes stay.
    run, batch = scored(name, fields)
    objective = objectives.load(name, **fields)
    _, empty = make(objective, LENGTH, [0] * 8)
    first = np.arange(8) % 3 == 0

    def part(mine):
        return {
            array: np.where(mine.reshape(-1, *[1] * (batch[array].ndim - 1)), *both)
            for array, both in ((a, (batch[a], empty[a])) for a in batch)
        }

    terms, gradient = run(batch)
    (terms_0, gradient_0), (terms_1, gradient_1) = run(part(first)), run(part(~first))
    largest = np.abs(gradient).max()
    np.testing.assert_allclose(gradient_0 + gradient_1, gradient, atol=1e-5 * largest)
    for term, (total, weight, _) in terms.items():
        np.testing.assert_allclose(
            terms_0[term].total + terms_1[term].total, total, rtol=1e-5
        )
        assert terms_0[term].weight + terms_1[term].weight == weight


@trained
def test_weights_do_not_depend_on_parameters(name, fields):
    run, batch = scored(name, fields)
    terms, other = run(batch)[0], run(batch, scale=3.0)[0]
    assert any(terms[term].total != other[term].total for term in terms)
    for term in terms:
        assert terms[term].weight == other[term].weight
