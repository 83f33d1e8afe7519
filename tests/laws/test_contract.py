"""What every objective promises; the modules are found by listing the folder."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from research import models, objectives
from research.batch import attention_mask
from tests.testing.example_batches import keys, rows
from tests.testing.objective_cases import (
    NUM_CLASSES,
    VOCAB,
    all_cases,
    input_groups,
    loss_cases,
    make_batch,
    make_network,
    make_objective,
    weight_names,
    zero_carry,
)

LENGTH = 24
KEY = jax.random.key(0)
lengths = pytest.mark.parametrize("length", [12, 37, 128])


@all_cases
@lengths
def test_arrays_are_as_announced(name, fields, length):
    objective = make_objective(name, fields)
    _, batch = make_batch(objective, length)
    specs = objective.batch_spec(length)
    assert batch.keys() == specs.keys()
    for array, (shape, dtype) in specs.items():
        assert batch[array].shape == (8, *shape), array
        assert batch[array].dtype == dtype, array


@all_cases
@lengths
def test_a_row_is_a_function_of_its_text_and_key(name, fields, length):
    objective = make_objective(name, fields)
    example, whole = make_batch(objective, length)
    before = [array.copy() for array in example]
    for part in (slice(0, 1), slice(3, 8), slice(None, None, -1)):
        cut = objective.corrupt(rows(example, part), keys(8)[part], VOCAB, length)
        for array in whole:
            np.testing.assert_array_equal(cut[array], whole[array][part], err_msg=array)
    for array, copy in zip(example, before, strict=True):
        np.testing.assert_array_equal(array, copy)  # the text itself is untouched


@all_cases
def test_another_key_hides_something_else(name, fields):
    objective = make_objective(name, fields)
    example, batch = make_batch(objective, 128)
    other = objective.corrupt(example, keys(8, seed=1), VOCAB, 128)
    same = all(np.array_equal(batch[array], other[array]) for array in batch)
    sure = name in ("classify", "tagging") or (
        name == "lm" and not fields.get("prefix")
    )
    asked = fields.get("relation", "nsp") in ("nsp", "distance", "discourse")
    sure |= name == "sentences" and asked
    assert same == sure  # those hide nothing at random


@all_cases
@lengths
def test_padding_sees_nothing_and_weighs_nothing(name, fields, length):
    objective = make_objective(name, fields)
    example, batch = make_batch(objective, length)
    empty = example.length == 0
    for group, _ in input_groups(objective, batch).values():
        here = group["segment"] > 0
        assert not here[empty].any() and here.any()
        assert (group["token"][~here] == VOCAB.pad_id).all()
        sees = attention_mask(group)
        assert not sees[~here].any() and not sees.swapaxes(1, 2)[~here].any()
        assert ((group["token"] >= 0) & (group["token"] < VOCAB.size)).all()
        assert (np.abs(group["position"]) < 2 * length).all()
        assert ((group["token_type"] >= 0) & (group["token_type"] < 8)).all()
    assert all((batch[weight] >= 0).all() for weight in weight_names(batch))
    assert not any(batch[weight][empty].any() for weight in weight_names(batch))
    assert any(batch[weight].any() for weight in weight_names(batch))


@all_cases
@lengths
def test_scored_places_are_places_of_the_text(name, fields, length):
    objective = make_objective(name, fields)
    _, batch = make_batch(objective, length)
    for weight in weight_names(batch):
        prefix = weight.removesuffix("weight")
        group = input_groups(objective, batch).get(f"{prefix}decoder_") or input_groups(
            objective, batch
        ).get(prefix)
        if group is None or batch[weight].ndim < 2:
            continue  # its places are not a text's
        target, weight = batch[prefix + "target"], batch[weight]
        assert ((target >= 0) & (target < VOCAB.size)).all()
        place = np.arange(weight.shape[1])[None].repeat(len(weight), axis=0)
        if prefix + "scored" in batch:
            place = batch[prefix + "scored"]
            assert not place[weight == 0].any()
        segment = np.take_along_axis(group[0]["segment"], place, axis=1)
        assert (segment[weight > 0] > 0).all()


@all_cases
@lengths
def test_the_pattern_is_kept(name, fields, length):
    objective = make_objective(name, fields)
    _, batch = make_batch(objective, length)
    for group, pattern in input_groups(objective, batch).values():
        segment = group["segment"]
        same = (segment[:, :, None] == segment[:, None]) & (segment[:, None] > 0)
        place = np.arange(segment.shape[1])
        if pattern == "causal":
            same &= place[:, None] >= place
        if pattern != "general":
            np.testing.assert_array_equal(attention_mask(group), same)
        else:
            assert not (attention_mask(group) & ~same).any()


@all_cases
def test_its_fields_are_plain_values(name, fields):
    objective = make_objective(name, fields)
    assert objective.family in objectives.FAMILIES
    assert dataclasses.is_dataclass(objective) and hash(objective) is not None
    for field in dataclasses.fields(objective):
        assert isinstance(field.default, str | int | float | tuple)


@cache
def scorer(name, fields):
    """(batch, only_empty, scale) -> terms, and the gradient of sum(coef * total).

    only_empty: of the terms whose weight is 0 alone. scale: of the parameters.
    """
    objective, net = make_network(name, thawed(fields))

    def terms(params, batch):
        return models.apply(net, params, lambda net: objective.loss(net, batch, KEY))

    @jax.jit
    def init(batch):
        score = lambda net: objective.loss(net, batch | {"carry": None}, KEY)  # noqa: E731
        params = models.unbox(models.init(net, score, KEY))
        return params, zero_carry(objective, net, params, batch, KEY)

    params, memory = init(on_device(make_batch(objective, LENGTH)[1]))
    memory = jax.tree.map(jnp.zeros_like, memory)

    @jax.jit
    def score(batch, only_empty, scale):
        def total(params):
            scored, after = terms(params, batch | {"carry": memory})
            assert jax.tree.structure(after) == jax.tree.structure(memory)
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


def frozen(value):
    """A value that can be hashed; `thawed` is its inverse."""
    if isinstance(value, dict):
        return ("dict", *((key, frozen(item)) for key, item in value.items()))
    return value


def thawed(value):
    if isinstance(value, tuple) and value[:1] == ("dict",):
        return {key: thawed(item) for key, item in value[1:]}
    return value


def scored(name, fields, num_raw=None):
    """A scorer, and a batch for it."""
    _, batch = make_batch(make_objective(name, fields), LENGTH, num_raw)
    return scorer(name, frozen(fields)), batch


def guess(term, weight) -> float:
    """The loss of one who knows nothing, under a term's own name in a joint."""
    answers = NUM_CLASSES.get(term.rpartition("/")[2], VOCAB.size)
    return np.log(answers(weight) if callable(answers) else answers)


@loss_cases
def test_an_untrained_loss_is_that_of_a_guess(name, fields):
    run, batch = scored(name, fields)
    terms, gradient = run(batch)
    assert np.isfinite(gradient).all() and gradient.any()
    for term, (total, weight, coef) in terms.items():
        if coef:
            assert total / weight == pytest.approx(guess(term, weight), abs=0.1), term


@loss_cases
def test_what_weighs_nothing_teaches_nothing(name, fields):
    run, batch = scored(name, fields)
    batch |= {name: np.zeros_like(batch[name]) for name in weight_names(batch)}
    terms, gradient = run(batch, only_empty=True)
    assert not gradient.any()
    assert any(term.weight == 0 for term in terms.values() if term.coef)
    assert all(term.total == 0 for term in terms.values() if term.weight == 0)


@loss_cases
def test_empty_rows_teach_nothing(name, fields):
    run, batch = scored(name, fields, num_raw=[0] * 8)
    terms, gradient = run(batch)
    assert not gradient.any()
    assert all(term.total == term.weight == 0 for term in terms.values())


@loss_cases
def test_sums_of_parts_are_sums_of_the_whole(name, fields):
    # Rows of the other part are made empty, so that shapes stay.
    objective = make_objective(name, fields)
    if not objective.supports_accumulation:
        pytest.skip("it compares the examples of a batch")
    run, batch = scored(name, fields)
    _, empty = make_batch(objective, LENGTH, [0] * 8)
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


@loss_cases
def test_weights_do_not_depend_on_parameters(name, fields):
    run, batch = scored(name, fields)
    terms, other = run(batch)[0], run(batch, scale=3.0)[0]
    assert any(terms[term].total != other[term].total for term in terms)
    for term in terms:
        assert terms[term].weight == other[term].weight
