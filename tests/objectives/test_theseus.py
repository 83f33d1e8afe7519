"""BERT-of-Theseus: between the teacher, at rate 0, and the student alone, at rate 1."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks, objectives
from research.contract.batch import CONSTANTS
from research.contract.errors import UserError
from research.objectives.taught.theseus import replace_modules
from tests.testing.model_options import model_options
from tests.testing.objective_cases import VOCAB, make_batch, make_constants
from tests.testing.trees import parameter_shapes

LENGTH = 16
SIZES = {"width": 16, "heads": 2, "feedforward": 24, "token_types": 2}
TEACHER = SIZES | {"layers": 4}


def make(**fields):
    fields = {"base_objective": "sequence_classification", **fields}
    return objectives.make_objective("theseus", teacher_model=TEACHER, **fields)


def build(layers, **options):
    objective = make()
    options = model_options(**{**SIZES, "layers": layers, **options})
    return networks.build(options, objective.needs(VOCAB), VOCAB)


def random_params(shapes, seed):
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda leaf: jnp.asarray(rng.normal(0, 0.3, leaf.shape), leaf.dtype), shapes
    )


@pytest.fixture(scope="module")
def case():
    """A batch, the student's parameters, and the teacher's, which differ in layers."""
    objective = make()
    _, batch = make_batch(objective, LENGTH)
    batch = jax.tree.map(jnp.asarray, batch)
    batch["example"] = jnp.arange(8, dtype=jnp.int32)
    teacher = random_params(objective.constants(VOCAB)["teacher"].arrays, 0)
    teacher = networks.unbox(teacher)
    batch[CONSTANTS] = {"teacher": teacher}
    shapes = parameter_shapes(
        build(2), lambda net: objective.loss(net, batch, jax.random.key(0))[0]
    )
    student = dict(teacher) | {"stack": random_params(shapes["stack"], 1)}
    return batch, student, teacher


def loss_of(objective, layers, params, batch, seed=0):
    def loss(net):
        terms, _ = objective.loss(net, batch, jax.random.key(seed))
        return sum(term.coef * term.total for term in terms.values())

    return networks.apply(build(layers), params, loss)


def with_blocks(params, *chosen):
    """The parameters with these blocks: pairs of parameters and a number."""
    blocks = [
        jax.tree.map(lambda leaf, n=number: leaf[n], own["stack"]["blocks"])
        for own, number in chosen
    ]
    blocks = jax.tree.map(lambda *leaves: jnp.stack(leaves), *blocks)
    return params | {"stack": params["stack"] | {"blocks": blocks}}


def test_each_draw_is_the_network_of_some_modules(case):
    """Rate 0 is the teacher, rate 1 the student; a layer that waits has no gradient."""
    batch, student, teacher = case
    base = objectives.make_objective("sequence_classification")
    modules = {False: ((teacher, 0), (teacher, 1)), True: ((student, 0),)}
    others = {False: ((teacher, 2), (teacher, 3)), True: ((student, 1),)}
    expected = {}
    for first, second in itertools.product((False, True), repeat=2):
        chosen = *modules[first], *others[second]
        params = with_blocks(student, *chosen)
        loss = loss_of(base, len(chosen), params, batch)
        expected[first, second] = float(loss)
    assert len({*expected.values()}) == 4

    @jax.jit
    def run(params, step, seed):
        objective = make(replacing_rate=((0, 0.0), (10, 0.5), (20, 5.0)))
        at = batch | {"step": jnp.full(8, step)}
        return jax.value_and_grad(
            lambda params: loss_of(objective, 2, params, at, seed)
        )(params)

    def drawn(step, seed):
        loss, grads = run(student, step, seed)
        kernel = grads["stack"]["blocks"]["feedforward"]["in"]["kernel"]
        found = tuple(bool(np.abs(layer).max() > 0) for layer in kernel)
        np.testing.assert_allclose(loss, expected[found], rtol=1e-5)
        return found

    assert {drawn(0, seed) for seed in range(4)} == {(False, False)}
    assert {drawn(20, seed) for seed in range(4)} == {(True, True)}
    assert {drawn(10, seed) for seed in range(16)} == expected.keys()


def test_a_base_has_its_vectors_of_words_beside_the_teacher():
    objective = make(base={"vectors": "random", "vectors_width": 8})
    _, batch = make_batch(objective, LENGTH)
    batch |= make_constants(objective) | {"example": np.arange(8)}
    assert batch[CONSTANTS].keys() == {"vectors", "teacher"}
    options = model_options(**SIZES, layers=2)
    network = networks.build(options, objective.needs(VOCAB), VOCAB)
    own, other = (
        parameter_shapes(
            network, lambda net, each=each: each.loss(net, batch, jax.random.key(0))
        )
        for each in (objective, objective.for_evaluation())
    )
    assert jax.tree.map(np.shape, own) == jax.tree.map(np.shape, other)


def test_what_runs_of_a_module():
    student, teacher = jnp.array([[1.0], [2.0]]), jnp.arange(6.0)[:, None]
    mixed, runs = replace_modules(student, teacher, jnp.array([False, True]))
    np.testing.assert_array_equal(mixed[:4, 0], [0, 1, 2, 2])
    assert runs.tolist() == [True, True, True, True, False, False]


def test_the_rate_is_that_of_the_released_code():
    """reference/compression_modern.md, D8: k .0006 and b .3."""
    objective = make(replacing_rate=[[0, 0.3], [1167, 1.0002]])
    rates = [float(objective.rate(jnp.array([step]))) for step in (0, 500, 1166, 1167)]
    np.testing.assert_allclose(rates, [0.3, 0.6, 0.9996, 1.0], atol=1e-6)
    constant = make(replacing_rate=0.5)
    assert constant == make() and constant.rate(jnp.array([7])) == 0.5
    assert objective.reads_step and not constant.reads_step


def test_evaluations_are_of_the_student_alone():
    evaluated = make().for_evaluation()
    assert evaluated == objectives.make_objective("sequence_classification")


@pytest.mark.parametrize(
    ("fields", "student", "words"),
    [
        (
            {},
            {"layers": 3},
            "4 layers of the teacher are not a multiple of model.layers",
        ),
        ({}, {"layers": 2, "width": 8}, "model.width is 8 and the teacher's 16"),
        ({}, {"layers": 2, "window": 4}, "theseus needs model.window 0, not 4"),
        ({"base_objective": "dae"}, {"layers": 2}, "dae has a network with encoder_"),
    ],
)
def test_what_cannot_be_replaced_is_one_line(case, fields, student, words):
    batch, _, _ = case
    with pytest.raises(UserError, match=words) as caught:
        objective = make(**fields)
        objective.needs(VOCAB)
        parameter_shapes(
            build(**student), lambda net: objective.loss(net, batch, jax.random.key(0))
        )
    assert "\n" not in str(caught.value)
