"""The contract of every objective; modules are found by listing the folder."""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from research import networks, objectives
from research.batch import attention_mask
from tests.testing import fast_key
from tests.testing.example_batches import keys
from tests.testing.objective_cases import (
    NUM_CLASSES,
    VOCAB,
    all_cases,
    first_cases,
    input_groups,
    make_batch,
    make_network,
    make_objective,
    weight_names,
)

LENGTH = 24
CLASSES = {name: objectives.objective_class(name) for name in objectives.names()}
SUPERVISED = [name for name, cls in CLASSES.items() if cls.family == "supervised"]
KEY = fast_key.key(0)
lengths = pytest.mark.parametrize("length", [12, 37, 128])


@all_cases
@lengths
def test_arrays_are_as_in_batch_spec(name, fields, length):
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
        found = objective.corrupt(example.rows(part), keys(8)[part], VOCAB, length)
        for array, expected in whole.items():
            np.testing.assert_array_equal(found[array], expected[part], err_msg=array)
    for array, copy in zip(example, before, strict=True):
        np.testing.assert_array_equal(array, copy)  # the example is not modified


@all_cases
def test_corruption_depends_on_the_key(name, fields):
    objective = make_objective(name, fields)
    example, batch = make_batch(objective, 128)
    other = objective.corrupt(example, keys(8, seed=1), VOCAB, 128)
    same = all(np.array_equal(batch[array], other[array]) for array in batch)
    deterministic = name in (*SUPERVISED, "tagging") or (
        name == "lm" and not fields.get("prefix")
    )
    deterministic |= fields.get("predict") == "next"
    task = fields.get("task", "nsp")
    deterministic |= name == "sentences" and task in ("nsp", "distance", "discourse")
    assert same == deterministic


@all_cases
@lengths
def test_padding_has_no_attention_and_no_weight(name, fields, length):
    objective = make_objective(name, fields)
    example, batch = make_batch(objective, length)
    empty = example.length == 0
    for group, _ in input_groups(objective, batch).values():
        here = group["segment"] > 0
        assert not here[empty].any() and here.any()
        assert (group["token"][~here] == VOCAB.pad_id).all()
        mask = attention_mask(group)
        assert not mask[~here].any() and not mask.swapaxes(1, 2)[~here].any()
        assert ((group["token"] >= 0) & (group["token"] < VOCAB.size)).all()
        assert (np.abs(group["position"]) < 2 * length).all()
        assert ((group["token_type"] >= 0) & (group["token_type"] < 8)).all()
    assert all((batch[weight] >= 0).all() for weight in weight_names(batch))
    assert not any(batch[weight][empty].any() for weight in weight_names(batch))
    assert any(batch[weight].any() for weight in weight_names(batch))


@all_cases
@lengths
def test_scored_positions_are_in_the_text(name, fields, length):
    objective = make_objective(name, fields)
    _, batch = make_batch(objective, length)
    for weight in weight_names(batch):
        prefix = weight.removesuffix("weight")
        group = input_groups(objective, batch).get(f"{prefix}decoder_") or input_groups(
            objective, batch
        ).get(prefix)
        if group is None or batch[weight].ndim < 2:
            continue  # not positions of a text
        target, weight = batch[prefix + "target"], batch[weight]
        assert ((target >= 0) & (target < VOCAB.size)).all()
        position = np.arange(weight.shape[1])[None].repeat(len(weight), axis=0)
        if prefix + "scored" in batch:
            position = batch[prefix + "scored"]
            assert not position[weight == 0].any()
        segment = np.take_along_axis(group[0]["segment"], position, axis=1)
        assert (segment[weight > 0] > 0).all()


@all_cases
@lengths
def test_the_attention_mask_matches_the_pattern(name, fields, length):
    objective = make_objective(name, fields)
    _, batch = make_batch(objective, length)
    for group, pattern in input_groups(objective, batch).values():
        assert ("low2" in group) <= ("reach2" in group)
        segment = group["segment"]
        same = (segment[:, :, None] == segment[:, None]) & (segment[:, None] > 0)
        position = np.arange(segment.shape[1])
        if pattern == "causal":
            same &= position[:, None] >= position
        if pattern != "general":
            np.testing.assert_array_equal(attention_mask(group), same)
        else:
            assert not (attention_mask(group) & ~same).any()


@all_cases
def test_min_length_is_the_least_that_scores(name, fields):
    objective = make_objective(name, fields)
    assert scores_text(objective, objective.min_length)
    if (name, "mem_len" in fields) != ("lm", True):  # its carry compares two positions
        assert not scores_text(objective, objective.min_length - 1)


def scores_text(objective, length: int) -> bool:
    """Whether all arrays of weights of full rows have one above 0."""
    try:
        spec = objective.text_spec(length)
        spans = 2 if spec.unit in ("pair", "sentence_pair", "halves") else 1
        if spec.length < spans:
            return False
        _, batch = make_batch(objective, length, [spec.length] * 64)
    except (IndexError, ValueError):  # such a length is refused before these
        return False
    return all(batch[weight].any() for weight in weight_names(batch))


@all_cases
def test_fields_are_plain_values(name, fields):
    objective = make_objective(name, fields | {"packed": False})
    assert objective.family in objectives.FAMILIES
    assert dataclasses.is_dataclass(objective) and hash(objective) is not None
    for field in dataclasses.fields(objective):
        assert isinstance(field.default, str | int | float | tuple)
        assert field.name not in {*dir(objectives.Objective), "family", "pattern"}


@all_cases
def test_what_an_objective_can_do_is_declared_and_defined(name, fields):
    objective = make_objective(name, fields)
    for method in objective.score_methods:
        part, _ = objective.scored_part(method)
        assert type(part).score_rows is not objectives.Objective.score_rows
    for part in objective.writers.values():
        assert part.prompt is not None
    if objective.predicts not in ("", "text"):  # a text is written
        defined = type(objective).predictions
        assert defined is not objectives.Objective.predictions


@cache
def scorer(name, fields):
    """A function of (batch, only_empty, scale): terms, gradient of sum(coef * total).

    only_empty: the gradient of the terms whose weight is 0 alone. scale: factor of the
    parameters.
    """
    objective, net = make_network(name, thawed(fields), layers=1)

    def terms(params, batch):
        return networks.apply(net, params, lambda net: objective.loss(net, batch, KEY))

    @jax.jit
    def init(batch):
        score = lambda net: objective.loss(net, batch | {"carry": None}, KEY)  # noqa: E731
        (_, carry), params = networks.init_with_output(net, score, KEY)
        return networks.unbox(params), jax.tree.map(jnp.zeros_like, carry)

    params, carry = init(on_device(make_batch(objective, LENGTH)[1]))

    @jax.jit
    def score(batch, only_empty, scale):
        def total(params):
            scored, after = terms(params, batch | {"carry": carry})
            assert jax.tree.structure(after) == jax.tree.structure(carry)
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
    """A hashable form of a value; `thawed` is the inverse."""
    if isinstance(value, dict):
        return ("dict", *((key, frozen(item)) for key, item in value.items()))
    return value


def thawed(value):
    """The inverse of `frozen`."""
    if isinstance(value, tuple) and value[:1] == ("dict",):
        return {key: thawed(item) for key, item in value[1:]}
    return value


def scorer_and_batch(name, fields, num_raw=None):
    """The scorer of a case, and a batch for it."""
    _, batch = make_batch(make_objective(name, fields), LENGTH, num_raw)
    return scorer(name, frozen(fields)), batch


def uniform_loss(term, weight) -> float:
    """The loss of uniform predictions; a joint's terms have a prefix and "/"."""
    num_classes = NUM_CLASSES.get(term.rpartition("/")[2], VOCAB.size)
    return np.log(num_classes(weight) if callable(num_classes) else num_classes)


@first_cases
def test_the_initial_loss_is_that_of_uniform_predictions(name, fields):
    run, batch = scorer_and_batch(name, fields)
    terms, gradient = run(batch)
    assert np.isfinite(gradient).all() and gradient.any()
    for term, (total, weight, coef) in terms.items():
        if coef:
            expected = pytest.approx(uniform_loss(term, weight), abs=0.1)
            assert total / weight == expected, term


@first_cases
def test_weight_zero_has_no_gradient(name, fields):
    run, batch = scorer_and_batch(name, fields)
    batch |= {name: np.zeros_like(batch[name]) for name in weight_names(batch)}
    terms, gradient = run(batch, only_empty=True)
    assert not gradient.any()
    assert any(term.weight == 0 for term in terms.values() if term.coef)
    assert all(term.total == 0 for term in terms.values() if term.weight == 0)


@first_cases
def test_empty_rows_have_no_gradient(name, fields):
    run, batch = scorer_and_batch(name, fields, num_raw=[0] * 8)
    terms, gradient = run(batch)
    assert not gradient.any()
    assert all(term.total == term.weight == 0 for term in terms.values())


@first_cases
def test_sums_over_parts_are_sums_over_the_batch(name, fields):
    # The rows of the other part become empty rows, so that shapes are the same.
    objective = make_objective(name, fields)
    if not objective.supports_accumulation:
        pytest.skip("examples of a batch interact")
    run, batch = scorer_and_batch(name, fields)
    _, empty = make_batch(objective, LENGTH, [0] * 8)
    first = np.arange(8) % 3 == 0

    def part(kept):
        return {
            array: np.where(kept.reshape(-1, *[1] * (batch[array].ndim - 1)), *both)
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


@first_cases
def test_weights_do_not_depend_on_parameters(name, fields):
    run, batch = scorer_and_batch(name, fields)
    terms, other = run(batch)[0], run(batch, scale=3.0)[0]
    assert any(terms[term].total != other[term].total for term in terms)
    for term in terms:
        assert terms[term].weight == other[term].weight
