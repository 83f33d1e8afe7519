"""joint: each part equals its objective alone, with a weight by the step."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from research import networks, objectives
from research.contract.batch import EVALUATION_STEP, ArraySpec
from research.contract.errors import UserError
from research.objectives.combined import shared_input
from research.objectives.losses.cross_entropy import Term
from research.program.setup import make_init
from research.program.step import make_step, weighted_loss
from tests.testing.example_batches import keys, texts, vocab
from tests.testing.model_options import model_options

VOCAB = vocab(size=96, sentinels=40)
OPTIONS = model_options(layers=1, width=16, heads=2, feedforward=16)
LENGTH = 24
ROWS = 8
KEY = jax.random.key(0)
KEY_DATA = jax.random.key_data(KEY)
BOTH = {
    "masked": {"objective": "mlm", "weight": 2.0},
    "lm": {"weight": 0.5},
}


def make_batch(objective, step=0):
    """An example, its keys, and its batch on the device."""
    width = objective.text_spec(LENGTH).length
    lengths = np.random.default_rng(0).integers(0, width + 1, ROWS)
    example = texts(width, lengths, VOCAB)
    example = example._replace(step=np.full(ROWS, step, np.int64))
    batch = objective.corrupt(example, keys(ROWS), VOCAB, LENGTH)
    batch = batch | {"example": np.arange(ROWS, dtype=np.int32)}
    return example, keys(ROWS), jax.tree.map(jnp.asarray, batch)


def test_each_part_is_corrupted_as_alone():
    objective = objectives.make_objective("joint", parts=BOTH)
    example, key, batch = make_batch(objective, step=7)
    assert example.token.shape[1] == LENGTH  # as lm reads it; mlm reads two less
    found = {"example", "step"}
    for name, alone in [("masked", "mlm"), ("lm", "lm")]:
        part = objectives.make_objective(alone)
        base, spec = objective.text_spec(LENGTH), part.text_spec(LENGTH)
        text = shared_input.derive_example(example, base, spec, VOCAB.pad_id)
        for array, expected in part.corrupt(text, key, VOCAB, LENGTH).items():
            np.testing.assert_array_equal(batch[f"{name}_{array}"], expected)
            found.add(f"{name}_{array}")
    assert found == set(batch)
    assert (batch["step"] == 7).all() and batch["step"].dtype == jnp.int32
    specs = objective.batch_spec(LENGTH) | {"example": ArraySpec(())}
    assert {k: (ROWS, *s.shape) for k, s in specs.items()} == {
        k: array.shape for k, array in batch.items()
    }


def bag_of_tokens(params) -> SimpleNamespace:
    """A network without layers: logits depend on the input token alone."""

    def states(group, scored=None):
        if scored is None:
            return params["in"][group["token"]]
        return params["in"][jnp.take_along_axis(group["token"], scored, axis=1)]

    def readout(states):
        return networks.Readout(states, params["out"], params["bias"], VOCAB.size)

    return SimpleNamespace(states=states, readout=readout)


def bag_params():
    rng = np.random.default_rng(0)
    shapes = {"in": (96, 8), "out": (128, 8), "bias": (128,)}
    return {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}


def loss(params, scorer, batch):
    """The loss as the step divides it, and its terms."""
    terms, carry = scorer.loss(bag_of_tokens(params), batch, KEY)
    assert carry == ()
    return weighted_loss(
        terms, {name: term.weight for name, term in terms.items()}
    ), terms


def test_terms_and_gradients_are_those_of_the_weighted_parts():
    objective = objectives.make_objective("joint", parts=BOTH)
    _, _, batch = make_batch(objective)
    alone = {
        "masked": objectives.make_objective("mlm"),
        "lm": objectives.make_objective("lm"),
    }

    @jax.jit
    def run(params, batch):
        grad = jax.grad(loss, has_aux=True)
        parts = {
            name: grad(params, part, objective.part_batch(name, batch))
            for name, part in alone.items()
        }
        return grad(params, objective, batch), parts

    (whole, terms), parts = run(bag_params(), batch)
    assert set(terms) == {"masked/mlm", "masked/accuracy", "lm/lm", "lm/accuracy"}
    for name, weight in [("masked", 2.0), ("lm", 0.5)]:
        for term, expected in parts[name][1].items():
            found = terms[f"{name}/{term}"]
            assert found.coef == weight * expected.coef
            np.testing.assert_allclose(found[:2], expected[:2], rtol=1e-6)
    both = parts["masked"][0], parts["lm"][0]
    expected, _ = ravel_pytree(jax.tree.map(lambda a, b: 2 * a + 0.5 * b, *both))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(ravel_pytree(whole)[0], expected, atol=1e-6 * scale)


def test_a_joint_of_one_part_equals_the_part():
    objective = objectives.make_objective("joint", parts={"mlm": {"unit": "word"}})
    part = objectives.make_objective("mlm", unit="word")
    network = networks.build(OPTIONS, objective.needs(VOCAB), VOCAB)
    assert network == networks.build(OPTIONS, part.needs(VOCAB), VOCAB)
    assert objective.pattern == part.pattern and objective.supports_accumulation
    assert objective.text_spec(LENGTH) == part.text_spec(LENGTH)
    _, _, batch = make_batch(objective)

    params = bag_params()
    (total, joint), (expected, alone) = (
        jax.jit(loss, static_argnums=1)(params, scorer, own)
        for scorer, own in [
            (objective, batch),
            (part, objective.part_batch("mlm", batch)),
        ]
    )
    assert total == expected and len(joint) == len(alone)
    for name, term in alone.items():
        np.testing.assert_array_equal(joint[f"mlm/{name}"], term)


def test_a_schedule_changes_weights_without_recompiling():
    # The second task starts at step 2, and the first has half its weight by step 4.
    parts = {
        "mlm": {"weight": [[2, 1.0], [4, 0.5]]},
        "lm": {"weight": [[1, 0.0], [2, 1.0]]},
    }
    objective = objectives.make_objective("joint", parts=parts)
    network = networks.build(OPTIONS, objective.needs(VOCAB), VOCAB)
    specs = objective.batch_spec(LENGTH) | {"example": ArraySpec(())}
    optimizer = optax.sgd(0.1)
    begin = make_init(objective, network, optimizer, specs, ROWS)
    now = jax.jit(lambda key: networks.unbox(begin(key)))(KEY)
    step = jax.jit(
        make_step(
            objective,
            network,
            optimizer,
            accumulate=1,
            dropout=False,
            log_every=1,
        )
    )
    weights = []
    for number in range(6):
        assert now.step == number
        now = step(now, make_batch(objective, step=number)[2], KEY_DATA)
        weights.append(
            [
                float(now.sums[name][2] / now.sums[name][1])
                for name in ("mlm/mlm", "lm/lm")
            ]
        )
    assert step._cache_size() == 1
    expected = [[1, 0], [1, 0], [1, 1], [0.75, 1], [0.5, 1], [0.5, 1]]
    np.testing.assert_allclose(weights, expected, rtol=1e-6)


def test_a_part_of_weight_0_has_no_gradient_until_its_step():
    parts = {"mlm": {"weight": [[9, 0.0], [10, 1.0]]}}
    objective = objectives.make_objective("joint", parts=parts)
    run = jax.jit(
        lambda params, batch: jax.grad(loss, has_aux=True)(params, objective, batch)[0]
    )

    def largest_grad(step):
        grad = run(bag_params(), make_batch(objective, step)[2])
        return np.abs(ravel_pytree(grad)[0]).max()

    assert largest_grad(0) == largest_grad(9) == 0
    assert largest_grad(10) == largest_grad(EVALUATION_STEP) > 0


def test_each_part_has_its_own_carry():
    def with_carry(name, start):
        def loss(net, batch, key):
            carry = batch["carry"]
            assert set(batch) == {"token", "example", "carry"}
            now = start if carry is None else carry["count"] + 1
            return {name: Term(now.sum(), jnp.float32(4))}, {"count": now}

        return SimpleNamespace(loss=loss)

    def without_carry(net, batch, key):
        assert batch["carry"] in (None, ())
        return {"none": Term(jnp.float32(0), jnp.float32(1))}, ()

    objective = objectives.make_objective(
        "joint", parts={n: {"objective": "lm"} for n in "abc"}
    )
    parts = {
        "a": with_carry("x", jnp.zeros(4)),
        "b": SimpleNamespace(loss=without_carry),
        "c": with_carry("x", jnp.full(4, 10.0)),
    }
    objective.__dict__["members"] = parts
    token = {f"{name}_token": jnp.zeros((4, 2)) for name in "abc"}
    batch = token | {"example": jnp.arange(4), "step": jnp.zeros(4, jnp.int32)}
    _, first = objective.loss(None, batch | {"carry": None}, KEY)
    terms, second = objective.loss(None, batch | {"carry": first}, KEY)
    assert set(second) == {"a", "c"}
    assert (second["a"]["count"] == 1).all() and (second["c"]["count"] == 11).all()
    assert terms["a/x"].total == 4 and terms["c/x"].total == 44


def test_each_part_may_have_its_own_token_types():
    parts = {"a": {"objective": "mlm"}, "b": {"objective": "lm"}}
    objective = objectives.make_objective("joint", parts=parts, token_types=2)
    _, _, batch = make_batch(objective)
    assert (batch["a_token_type"] == 0).all() and (batch["b_token_type"] == 2).all()
    networks.build(model_options(token_types=4), objective.needs(VOCAB), VOCAB)
    assert objective.specials(VOCAB).token_type == 0
    order = {"a": {"objective": "lm"}, "b": {"objective": "mlm"}}
    masked = objectives.make_objective("joint", parts=order, token_types=2)
    assert masked.specials(VOCAB).token_type == 2  # of the part that fills masks
    with pytest.raises(UserError, match=r"model\.token_types is 3.*\b4\b"):
        networks.build(model_options(token_types=3), objective.needs(VOCAB), VOCAB)
    pairs = {"a": {"objective": "sentences"}, "lm": {}}
    few = objectives.make_objective("joint", parts=pairs, token_types=1)
    with pytest.raises(UserError, match=r"objective\.token_types is 1, .* set it to 2"):
        few.needs(VOCAB)
    with pytest.raises(UserError, match="token_types must be at least 0"):
        objectives.make_objective("joint", parts=parts, token_types=-1)


def test_parts_need_a_common_text_and_one_network():
    objective = objectives.make_objective(
        "joint", parts={"lm": {}, "token_classification": {}}
    )
    words = "token_classification: document of 22 tokens label tags"
    with pytest.raises(UserError, match=words):
        objective.text_spec(LENGTH)
    objective = objectives.make_objective("joint", parts={"lm": {}, "dae": {}})
    with pytest.raises(UserError, match="stacks is 'encoder_decoder' or 'one'"):
        objective.needs(VOCAB)
