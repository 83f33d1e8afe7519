"""Optimizers against NumPy, weight decay by parameter."""

from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import experiments
from launch.config import load_config
from launch.measure.placeholder_vocab import placeholder_vocab
from research import networks
from research.checkpoints.checkpoint import path_name
from research.contract.batch import ArraySpec
from research.contract.errors import UserError
from research.distributed import sharding
from research.networks.transformer.one_stack import Transformer
from research.optimize.optimizer import is_frozen, make_optimizer
from research.optimize.rules import OPTIMIZERS, Rule
from research.optimize.rules.shared.weight_decay import decayed_params
from research.program.constants import Constants
from research.program.setup import make_init
from tests.testing.model_options import model_options
from tests.testing.optimizer_section import section
from tests.testing.small_sources import small_sources
from tests.testing.trees import parameter_shapes

PARAMS = {"dense": {"kernel": jnp.ones((4, 4)), "bias": jnp.ones((2, 4))}}


def test_weight_decay_leaves_out_biases_and_norms_of_any_rank():
    assert decayed_params(PARAMS) == {"dense": {"kernel": True, "bias": False}}
    others = {"relative": {"position_bias": 0, "kernel": 0}, "norm": {"scale": 0}}
    assert jax.tree.leaves(decayed_params(others)) == [False, True, False]


FEW = {"transformer": ("bert", "xlnet", "t5")}
"""Network with many experiments -> some with all of its kinds of parameters."""


@pytest.mark.parametrize("network", networks.FOLDER.names())
def test_what_is_no_matrix_of_a_layer_does_not_decay(network):
    for experiment in experiments_of(network):
        params, axes = params_and_axes(experiment, network)
        decays = jax.tree_util.tree_leaves_with_path(decayed_params(params))
        for names, (path, decayed) in zip(axes, decays, strict=True):
            num_dims = len([name for name in names if name != "layers"])
            assert num_dims > 1 or not decayed, f"{experiment}: {path_name(path)}"


@pytest.mark.parametrize("network", networks.FOLDER.names())
def test_depths_are_an_array_where_layers_are_stacked(network):
    """LAMB, AdaFactor and Muon take each of these layers alone."""
    for experiment in experiments_of(network):
        params, axes = params_and_axes(experiment, network)
        depths = jax.tree_util.tree_leaves_with_path(networks.layer_depths(params))
        for names, (path, depth) in zip(axes, depths, strict=True):
            is_stacked = "layers" in names[:1]
            assert np.ndim(depth) == is_stacked, f"{experiment}: {path_name(path)}"


@cache
def experiments_of(network):
    """The experiments with a size tiny that have a network.

    If there is none, the first one with which it goes.
    """
    if network in FEW:
        return FEW[network]
    files = Path(experiments.__path__[0]).glob("[!_]*.py")
    tiny = [file.stem for file in sorted(files) if '"tiny"' in file.read_text("utf-8")]
    found = [name for name in tiny if tiny_config(name).model.name == network]
    return found or [next(name for name in tiny if goes_with(name, network))]


def goes_with(experiment, network):
    try:
        params_and_axes(experiment, network)
    except UserError:
        return False
    return True


@cache
def tiny_config(experiment, **keys):
    keys = {f"model.{key}": value for key, value in keys.items()}
    path = f"experiments/{experiment}.py:tiny"
    return load_config(path, keys | small_sources(load_config(path).objective))


@cache
def params_and_axes(experiment, network):
    """The shapes of an experiment's parameters, and a list of their logical axes."""
    config = tiny_config(experiment, network=network)
    vocab, objective = placeholder_vocab(config), config.objective
    module = networks.build(config.model, objective.needs(vocab), vocab)
    specs = objective.batch_spec(config.data.length) | {"example": ArraySpec(())}
    mesh = sharding.make_mesh(config.mesh, jax.devices()[:1])
    constants = Constants(objective.constants(vocab), mesh, {})
    optimizer = make_optimizer(section(), 500)
    init = make_init(objective, module, optimizer, specs, 2, constants)
    boxed = jax.eval_shape(lambda: init(jax.random.key(0))).params
    axes = networks.logical_axes(boxed)
    is_leaf = sharding.is_logical_axes
    return networks.unbox(boxed), jax.tree.leaves(axes, is_leaf=is_leaf)


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
    assert params["relative"].keys() == relative_biases()


def relative_biases():
    """The biases of queries in a network with XLNet's attention."""
    options = model_options(
        position="relative", token_type_encoding="relative", token_types=2
    )
    names = "token position segment token_type rank reach"
    group = dict.fromkeys(names.split(), jnp.zeros((1, 2), jnp.int32))
    shapes = parameter_shapes(Transformer(options, 50), lambda net: net.states(group))
    terms = shapes["stack"]["blocks"]["attention"]["relative"]
    return {name for name in terms if name.endswith("bias")}


def test_a_frozen_network_is_all_but_its_heads():
    params = {
        "token": {"embedding": jnp.ones((4, 2))},
        "embeddings": {"token_type": {"embedding": jnp.ones((2, 2))}},
        "stack": {
            "blocks": {"attention": {"query": jnp.ones((3, 2, 2))}},
            "norm": {"scale": jnp.ones(2)},
        },
        "encoder": {"blocks": {"feedforward": {"up": jnp.ones((3, 2, 2))}}},
        "head_tag": {"out": {"kernel": jnp.ones((2, 5))}},
        "readout_token": {"bias": jnp.ones(4)},
    }
    frozen = is_frozen(params, "network")
    learns = {name for name, own in frozen.items() if not any(jax.tree.leaves(own))}
    fixed = {name for name, own in frozen.items() if all(jax.tree.leaves(own))}
    assert learns == {"head_tag", "readout_token"}
    assert fixed == params.keys() - learns


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


def test_frozen_parameters_stay_and_count_for_no_norm():
    """With decay, which would change them, and a large gradient, which would clip."""
    params = {"head": {"bias": jnp.ones(2)}, "stack": PARAMS, "stacks": jnp.ones(2)}
    grads = jax.tree.map(lambda leaf: jnp.full_like(leaf, 1e6), params)
    grads |= {"head": {"bias": jnp.full(2, 0.01)}, "stacks": jnp.full(2, 0.01)}
    keys = dict(name="sgd", learning_rate=1.0, warmup_steps=0, beta1=0.0)
    optimizer = make_optimizer(section(frozen="stack/dense/kernel, stack", **keys), 500)
    left = train(optimizer, params, [grads])
    assert left["head"]["bias"].tolist() == left["stacks"].tolist()
    assert left["head"]["bias"] == pytest.approx(0.99)
    keys |= dict(name="adamw", weight_decay=0.1)
    optimizer = make_optimizer(section(frozen="stack", **keys), 500)
    left = train(optimizer, params, [grads])
    assert jax.tree.all(jax.tree.map(jnp.array_equal, left["stack"], PARAMS))
    assert (left["head"]["bias"] < 0.5).all()
    with pytest.raises(UserError, match=r"no parameter is below 'stac'.* head, stack"):
        make_optimizer(section(frozen="stac"), 500).init(params)


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_frozen_parameters_have_no_moments_and_change_no_other_update(name):
    """Updates are those of an optimizer of all, given zeros where nothing learns."""
    params, gradients = params_and_grads(0, steps=2)
    keys = dict(name=name, warmup_steps=0, clip_norm=0.5, layer_decay=0.5)
    frozen = make_optimizer(section(frozen="token", **keys), 500)
    state = jax.eval_shape(frozen.init, params)
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(state)]
    assert not any("token" in jax.tree_util.keystr(path) for path in paths)
    zeros = [g | {"token": jax.tree.map(np.zeros_like, g["token"])} for g in gradients]
    found = train(frozen, params, gradients)
    expected = train(make_optimizer(section(**keys), 500), params, zeros)
    expected["token"] = params["token"]
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("name", OPTIMIZERS.names())
def test_every_optimizer_reduces_the_loss(name):
    made = section(name=name, learning_rate=0.01)
    optimizer = make_optimizer(made, 500)
    assert isinstance(made.rule, Rule)

    def loss(params):
        return sum((x**2).sum() for x in jax.tree.leaves(params))

    @jax.jit
    def losses(params):
        """Before and after three steps."""
        before, state = loss(params), optimizer.init(params)
        for _ in range(3):
            updates, state = optimizer.update(jax.grad(loss)(params), state, params)
            params = jax.tree.map(jnp.add, params, updates)
        return before, loss(params)

    before, after = losses(params_and_grads(0)[0])
    assert after < before


def params_and_grads(seed, *, steps=4):
    """Parameters of two stacked layers and an embedding, and their gradients."""
    random = np.random.default_rng(seed)
    shapes = {
        "stack": {"blocks": {"dense": {"kernel": (2, 130, 140), "bias": (2, 6)}}},
        "token": {"embedding": (3, 5)},
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


def adam(name, param, grads, *, before=False):
    """Adam's update, with an epsilon of 0.01 after the bias correction or before it."""
    mean, square = moment(grads, 0.9), moment([g * g for g in grads], 0.99)
    mean, root = mean / (1 - 0.9 ** len(grads)), np.sqrt(1 - 0.99 ** len(grads))
    if before:
        return mean * root / (np.sqrt(square) + 0.01)
    return mean / (np.sqrt(square) / root + 0.01)


def lamb(name, param, grads, *, every=False):
    step = bert_adam(name, param, grads)
    if ("bias" in name and not every) or not param.any():
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


def newton_schulz(singular):
    """Five steps of the polynomial of the released code (KellerJordan/Muon)."""
    for _ in range(5):
        singular = 3.4445 * singular - 4.7750 * singular**3 + 2.0315 * singular**5
    return singular


def muon(name, param, grads, *, shape_factor=None):
    """Of a kernel, by its singular values; all other parameters have BERT's Adam."""
    if name != "kernel":
        return 0.5 * bert_adam(name, param, grads)
    steps, grad = len(grads), grads[-1]
    mean = moment(grads, 0.95) / (1 - 0.95 ** (steps + 1))
    nesterov = 0.95 * mean + 0.05 * grad / (1 - 0.95**steps)
    left, singular, right = np.linalg.svd(nesterov, full_matrices=False)
    singular = newton_schulz(singular / np.linalg.norm(nesterov))
    factor = shape_factor or 0.2 * max(param.shape) ** 0.5
    return factor * ((left * singular) @ right) + 0.1 * param


def test_adadelta_has_the_steps_of_the_released_code():
    """Three steps of a gradient of 0.1 (yoonkim/CNN_sentence)."""
    keys = dict(name="adadelta", learning_rate=1.0, clip_norm=0.0, warmup_steps=0)
    optimizer = make_optimizer(section(**keys, schedule="constant"), 9)
    params, found = {"a": np.zeros(())}, []
    state = optimizer.init(params)
    for _ in range(3):
        updates, state = optimizer.update({"a": np.float32(0.1)}, state, params)
        found.append(float(updates["a"]))
    np.testing.assert_allclose(found, [-0.00446767, -0.00452453, -0.004563], rtol=1e-5)


@pytest.mark.parametrize("most", [3.0, 9.0])
def test_norms_of_heads_alone_are_limited(most):
    """The kernel's columns have norms of 5 and the root of 5 after a step."""
    kernel = np.float32([[3, 1], [4, 2]])
    params = {name: {"out": {"kernel": kernel}} for name in ("head_label", "stack")}
    keys = dict(name="sgd", beta1=0.0, learning_rate=1.0, clip_norm=0.0, warmup_steps=0)
    optimizer = make_optimizer(section(**keys, schedule="constant", max_norm=most), 9)
    grads = jax.tree.map(np.ones_like, params)
    before = jax.tree.map(lambda x: x + np.float32(1), params)
    after = train(optimizer, before, [grads])
    expected = kernel * [[0.6, 1]] if most == 3 else kernel
    np.testing.assert_allclose(after["head_label"]["out"]["kernel"], expected, 1e-5)
    np.testing.assert_allclose(after["stack"]["out"]["kernel"], kernel, 1e-5)


def test_norms_of_frozen_heads_stay():
    params = {"head_label": {"out": {"kernel": np.float32([[3], [4]])}}}
    keys = dict(frozen="head_label", max_norm=1.0, warmup_steps=0, schedule="constant")
    optimizer = make_optimizer(section(**keys), 9)
    after = train(optimizer, params, [jax.tree.map(np.ones_like, params)])
    np.testing.assert_array_equal(
        after["head_label"]["out"]["kernel"], params["head_label"]["out"]["kernel"]
    )


BERT_ADAM = {"bias_correction": False, "beta2": 0.99, "weight_decay": 0.1}


@pytest.mark.parametrize(
    ("name", "changes", "update"),
    [
        ("adam", {"epsilon": 0.01, "beta2": 0.99}, adam),
        (
            "adam",
            {"epsilon": 0.01, "beta2": 0.99, "epsilon_place": "before"},
            partial(adam, before=True),
        ),
        ("adamw", BERT_ADAM, bert_adam),
        ("lamb", BERT_ADAM, lamb),
        ("lamb", BERT_ADAM | {"trust_ratio": "all"}, partial(lamb, every=True)),
        ("adafactor", {"weight_decay": 0.0}, adafactor),
        ("muon", BERT_ADAM | {"adam_rate": 0.5}, muon),
        (
            "muon",
            BERT_ADAM | {"adam_rate": 0.5, "update_rms": 0.0},
            partial(muon, shape_factor=(140 / 130) ** 0.5),
        ),
    ],
)
def test_updates_equal_those_in_numpy(name, changes, update):
    keys = dict(name=name, clip_norm=0.0, learning_rate=0.02)
    keys |= dict(schedule="constant", warmup_steps=0) | changes
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
        return moved["token"]["embedding"] - params["token"]["embedding"]

    ratio = move(bias_correction=False) / move()
    np.testing.assert_allclose(ratio, (1 - 0.9) / (1 - 0.999) ** 0.5, rtol=1e-3)


def test_a_penalty_leaves_out_ranges_of_inputs_which_are_measured():
    params = {"kernel": jnp.ones((2, 2)), "bias": jnp.ones(2), "input_range": 1.0}
    keys = dict(name="sgd", beta1=0.0, l2_penalty=0.5, warmup_steps=0, clip_norm=0.0)
    optimizer = make_optimizer(
        section(learning_rate=1.0, schedule="constant", **keys), 9
    )
    zeros = jax.tree.map(jnp.zeros_like, params)
    updates, _ = optimizer.update(zeros, optimizer.init(params), params)
    found = {name: float(jnp.min(update)) for name, update in updates.items()}
    assert found == {"kernel": -0.5, "bias": -0.5, "input_range": 0.0}
