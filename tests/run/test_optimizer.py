"""Schedules at their corners, optimizers against NumPy, weight decay by parameter."""

from operator import itemgetter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import base
from research import models
from research.batch import INPUT_ARRAYS
from research.errors import UserError
from research.models.layers.relative import PositionFeatures, RelativeTerms
from research.run.optimizer import (
    QUERY_BIASES,
    decayed_params,
    make_optimizer,
    make_schedule,
)
from tests.testing.model_options import model_options

PARAMS = {"dense": {"kernel": jnp.ones((4, 4)), "bias": jnp.ones((2, 4))}}


def legal_values(key):
    """The values that experiments/base.py declares for a key of the section."""
    return base.Optimizer.__dataclass_fields__[key].metadata["values"]


def section(**changes):
    config = base.get_config().optimizer
    config.update(changes)
    return config


@pytest.mark.parametrize("name", legal_values("schedule"))
def test_the_peak_is_reached_when_the_warm_up_ends(name):
    rate = make_schedule(
        section(schedule=name, warmup_steps=10, learning_rate=0.5), 100
    )
    rates = np.array([rate(step) for step in range(100)])
    assert rates[0] == pytest.approx(0.05)
    assert rates[9] == pytest.approx(0.5)
    assert rates[10] == pytest.approx(0.5)
    assert rates.argmax() in (9, 10)
    assert (np.diff(rates[:10]) > 0).all() and (np.diff(rates[10:]) <= 0).all()


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_the_decay_ends_with_the_run(name):
    config = section(
        schedule=name, warmup_steps=0, final_fraction=0.1, learning_rate=1.0
    )
    rate = make_schedule(config, 50)
    assert rate(50) == pytest.approx(0.1) and rate(25) == pytest.approx(0.55)


def test_rsqrt_is_the_peak_times_sqrt_of_warm_up_over_step():
    rate = make_schedule(
        section(schedule="rsqrt", warmup_steps=10, learning_rate=1.0), 99
    )
    assert rate(40) == pytest.approx((10 / 40) ** 0.5)


def test_t5s_rate_is_constant_and_then_falls_with_the_square_root_of_the_step():
    """1 / sqrt(max(t, 10,000)) (Raffel et al. 2020, section 3.1.2)."""
    keys = dict(schedule="rsqrt", warmup="constant", warmup_steps=10_000)
    rate = make_schedule(section(learning_rate=0.01, **keys), 2**19)
    for step in (0, 1, 9_999, 10_000, 10_001, 250_000, 2**19 - 1):
        assert rate(step) == pytest.approx(max(step, 10_000) ** -0.5, rel=1e-6)


def test_a_polynomial_decay_is_a_power_of_the_remaining_fraction():
    keys = dict(schedule="polynomial", power=2.0, final_fraction=0.1, warmup_steps=0)
    rate = make_schedule(section(learning_rate=1.0, **keys), 50)
    for step in (0, 10, 49, 50):
        assert rate(step) == pytest.approx(0.1 + 0.9 * (1 - step / 50) ** 2)


def test_berts_decay_counts_from_step_0_and_the_warm_up_replaces_its_start():
    """10 steps, 4 of them warm-up, peak 1 (google-research/bert, optimization.py)."""
    keys = dict(decay_from="start", warmup_steps=4, learning_rate=1.0)
    rate = make_schedule(section(schedule="linear", **keys), 10)
    expected = [0, 0.25, 0.5, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0]
    np.testing.assert_allclose([rate(step) for step in range(11)], expected, atol=1e-6)
    cosine = make_schedule(section(schedule="cosine", **keys), 10)
    assert cosine(2) == pytest.approx(0.5)
    assert cosine(5) == pytest.approx(0.5) and cosine(10) == pytest.approx(0, abs=1e-6)


def test_electras_warm_up_is_a_factor_of_the_decay():
    """google-research/electra, model/optimization.py."""
    keys = dict(decay_from="start", warmup="factor", warmup_steps=4, learning_rate=1.0)
    rate = make_schedule(section(schedule="linear", **keys), 10)
    expected = [0, 0.25 * 0.9, 0.5 * 0.8, 0.75 * 0.7, 0.6, 0.5]
    np.testing.assert_allclose([rate(step) for step in range(6)], expected, atol=1e-6)


def test_weight_decay_leaves_out_biases_and_norms_of_any_rank():
    assert decayed_params(PARAMS) == {"dense": {"kernel": True, "bias": False}}
    others = {"relative": {"position_bias": 0, "kernel": 0}, "norm": {"scale": 0}}
    assert jax.tree.leaves(decayed_params(others)) == [False, True, False]


def test_xlnet_also_decays_its_query_biases_and_fairseq_every_parameter():
    params = {
        "relative": {"content_bias": 0, "position_bias": 0, "segment_bias": 0},
        "norm": {"scale": 0, "bias": 0},
    }
    assert jax.tree.leaves(decayed_params(params, "query_biases")) == [
        *(False, False),  # of the norm
        *(True, True, True),
    ]
    assert all(jax.tree.leaves(decayed_params(params, "all")))
    assert set(QUERY_BIASES) == params["relative"].keys() == set(relative_biases())


def relative_biases():
    """The biases of queries in a network with XLNet's attention."""
    options = model_options(
        position="relative", token_type_encoding="relative", token_types=2
    )
    terms = RelativeTerms(options, 1.0)
    inputs = jnp.zeros((1, 2, options.heads, options.head_width))
    features = PositionFeatures(
        sinusoids=jnp.zeros((1, 2, options.width)), token_type=jnp.zeros((1, 2, 2))
    )
    params = jax.eval_shape(
        lambda key: terms.init(key, inputs, inputs, features, features),
        jax.random.key(0),
    )["params"]
    return [name for name in params if name.endswith("bias")]


def test_the_optimizer_decays_what_decay_params_names():
    """Without gradients a step multiplies what decays by 1 - rate x weight decay."""
    params = {"dense": {"kernel": jnp.ones((4, 4)), "bias": jnp.ones(4)}}
    zeros = jax.tree.map(jnp.zeros_like, params)
    keys = dict(name="adamw", weight_decay=0.1, learning_rate=0.5, warmup_steps=0)

    def after(which):
        optimizer = make_optimizer(section(decay_params=which, **keys), 500)
        left = train(optimizer, params, [zeros])["dense"]
        return float(left["kernel"][0, 0]), float(left["bias"][0])

    assert after("matrices") == pytest.approx((0.95, 1.0))
    assert after("all") == pytest.approx((0.95, 0.95))


@pytest.mark.parametrize("name", legal_values("name"))
def test_every_optimizer_reduces_the_loss(name):
    optimizer = make_optimizer(section(name=name, learning_rate=0.01), 500)

    def loss(params):
        return sum((x**2).sum() for x in jax.tree.leaves(params))

    params, state = PARAMS, optimizer.init(PARAMS)
    for _ in range(3):
        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        params = jax.tree.map(jnp.add, params, updates)
    assert loss(params) < loss(PARAMS)


def test_a_warm_up_as_long_as_the_run_is_refused():
    with pytest.raises(UserError, match=r"optimizer\.warmup_steps=100"):
        make_optimizer(section(warmup_steps=100), 100)


def params_and_grads(seed, *, steps=4):
    """Parameters of two stacked layers and an embedding, and their gradients."""
    random = np.random.default_rng(seed)
    shapes = {
        "stack": {"blocks": {"dense": {"kernel": (2, 130, 140), "bias": (2, 6)}}},
        "token": {"rows": (3, 5)},
        "output": {"bias": (4,)},
    }

    def draw(scale=1.0):
        return jax.tree.map(
            lambda shape: (scale * random.normal(size=shape)).astype(np.float32),
            shapes,
            is_leaf=lambda x: isinstance(x, tuple),
        )

    params = draw()
    params["stack"]["blocks"]["dense"]["kernel"][1] *= 0.01
    params["stack"]["blocks"]["dense"]["bias"][:] = 0
    return params, [draw(scale) for scale in np.geomspace(1, 1e-3, steps)]


def train(optimizer, params, gradients):
    """Parameters after one step with each of the gradients."""

    @jax.jit
    def step(params, state, grads):
        updates, state = optimizer.update(grads, state, params)
        return jax.tree.map(jnp.add, params, updates), state

    state = jax.jit(optimizer.init)(params)
    for grads in gradients:
        params, state = step(params, state, grads)
    return params


def train_with_numpy(params, gradients, update):
    """The same by `update(name, param, gradients so far)`, layer by layer."""

    def train_leaf(path, *leaves):
        name = path[-1].key
        if "blocks" in str(path):
            layers = zip(*leaves, strict=True)
            parts = [train_leaf(path[-1:], *layer) for layer in layers]
            return np.stack(parts)
        param, *grads = (np.float64(leaf) for leaf in leaves)
        for step in range(len(grads)):
            param = param - update(name, param, grads[: step + 1])
        return param

    return jax.tree_util.tree_map_with_path(train_leaf, params, *gradients)


def moment(grads, decay):
    """The exponential moving average, which starts at 0."""
    mean = np.zeros_like(grads[0])
    for grad in grads:
        mean = decay * mean + (1 - decay) * grad
    return mean


def bert_adam(name, param, grads):
    """Adam's update with weight decay, without bias correction."""
    mean, square = moment(grads, 0.9), moment([g * g for g in grads], 0.99)
    step = mean / (np.sqrt(square) + 1e-6)
    return step if "bias" in name else step + 0.1 * param


def lamb(name, param, grads):
    step = bert_adam(name, param, grads)
    if "bias" in name:
        return step
    return step * np.linalg.norm(param) / np.linalg.norm(step)


def adafactor(name, param, grads):
    """Second moments of decay 1 - t^-0.8, factored if both dims are at least 128."""

    def second_moment_of(squares):
        mean = np.zeros_like(squares[0])
        for t, square in enumerate(squares, start=1):
            mean = (1 - t**-0.8) * mean + t**-0.8 * square
        return mean

    squares = [grad * grad + 1e-30 for grad in grads]
    if min(param.shape) >= 128:
        rows, columns = (
            second_moment_of([s.mean(axis) for s in squares]) for axis in (1, 0)
        )
        second_moment = np.outer(rows, columns) / rows.mean()
    else:
        second_moment = second_moment_of(squares)
    step = grads[-1] / np.sqrt(second_moment)
    step = step / max(1.0, np.sqrt((step * step).mean()))
    return step * max(1e-3, np.sqrt((param * param).mean()))


@pytest.mark.parametrize(
    ("name", "changes", "update"),
    [
        ("adamw", {"bias_correction": False}, bert_adam),
        ("lamb", {"bias_correction": False}, lamb),
        ("adafactor", {"weight_decay": 0.0}, adafactor),
    ],
)
def test_updates_equal_those_in_numpy(name, changes, update):
    keys = (
        dict(weight_decay=0.1, beta2=0.99, clip_norm=0.0, learning_rate=0.02) | changes
    )
    keys |= dict(name=name, schedule="constant", warmup_steps=0)
    params, gradients = params_and_grads(0)
    found = train(make_optimizer(section(**keys), 500), params, gradients)
    expected = train_with_numpy(params, gradients, lambda *args: 0.02 * update(*args))
    moved = jax.tree.map(lambda x, y: np.abs(x - y).max(), expected, params)
    assert min(jax.tree.leaves(moved)) > 1e-5
    jax.tree.map(
        lambda x, y, size: np.testing.assert_allclose(x, y, atol=2e-4 * size),
        found,
        expected,
        moved,
    )


def test_without_bias_correction_adams_first_step_is_larger():
    params, gradients = params_and_grads(0, steps=1)
    keys = dict(name="adam", clip_norm=0.0, warmup_steps=0, epsilon=1e-12, beta2=0.999)

    def move(**changes):
        optimizer = make_optimizer(section(**keys, **changes), 500)
        moved = train(optimizer, params, gradients)
        return moved["token"]["rows"] - params["token"]["rows"]

    ratio = move(bias_correction=False) / move()
    np.testing.assert_allclose(ratio, (1 - 0.9) / (1 - 0.999) ** 0.5, rtol=1e-3)


def test_layer_decay_reduces_the_updates_of_lower_layers():
    """ELECTRA's factors: 1 for heads, then decay^2, and one more power per layer."""
    options = model_options(
        layers=3, width=8, heads=2, feedforward=8, embedding_width=4
    )
    network = models.Transformer(options, size=20, heads={"label": 2})
    group = {name: np.zeros((1, 4), np.int32) for name in INPUT_ARRAYS}

    def call(net):
        return net.head("label", net.states(group))

    params = models.unbox(
        jax.eval_shape(lambda: models.init(network, call, jax.random.key(0)))
    )
    params = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), params)

    def move(layer_decay):
        keys = dict(name="sgd", clip_norm=0.0, warmup_steps=0, learning_rate=1.0)
        keys |= dict(schedule="constant", layer_decay=layer_decay)
        return train(make_optimizer(section(**keys), 9), params, [params])

    full, decayed = move(1.0), move(0.5)
    factor = jax.tree.map(lambda x, y: (1 - x) / (1 - y), decayed, full)

    def unique(part):
        return {float(x) for leaf in jax.tree.leaves(part) for x in leaf.ravel()}

    assert unique(factor["answer_label"]) == {1.0}
    assert unique(factor["stack"]["norm"]) == {0.5}
    for layer, expected in enumerate((0.5**4, 0.5**3, 0.5**2)):
        blocks = jax.tree.map(itemgetter(layer), factor["stack"]["blocks"])
        assert unique(blocks) == {expected}
    for part in (factor["token"], factor["place"], factor["stack"]["project"]):
        assert unique(part) == {0.5**5}
