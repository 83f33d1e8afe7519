"""Pruning: the schedule, which weights are left, and that masks are part of a state."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from launch.config import READ_WITH
from research import networks
from research.config.config import Config
from research.contract.errors import UserError
from research.optimize import l0_gates, pruning
from research.optimize.optimizer import make_optimizer
from research.optimize.pruning import Pruner, Pruning
from research.program.setup import build_program
from research.use.shrinking import recipes
from tests.testing import tiny_runs
from tests.testing.example_batches import vocab
from tests.testing.model_options import model_options
from tests.testing.optimizer_section import section
from tests.testing.tiny_runs import random_state, tiny_config

LAYERS, SIZE = 2, (4, 5)


def make_params(seed=0):
    """Two kernels of two layers, of different sizes of weights, and what stays."""
    rng = np.random.default_rng(seed)
    draw = lambda scale, *shape: jnp.float32(scale * rng.normal(size=shape))  # noqa: E731
    blocks = {
        "in": {"kernel": draw(1, LAYERS, *SIZE), "bias": draw(1, LAYERS, SIZE[1])},
        "out": {"kernel": draw(3, LAYERS, *SIZE)},
    }
    return {"stack": {"blocks": blocks}, "token": {"embedding": draw(1, 6, 3)}}


def run(optimizer, params, num_steps, seed=1, draw=make_params):
    """The state and the parameters after each step, with random gradients."""
    state, found = optimizer.init(params), []
    step = jax.jit(optimizer.update)
    for number in range(num_steps):
        updates, state = step(draw(seed + number), state, params)
        params = optax.apply_updates(params, updates)
        found.append((state, params))
    return found


def kernels(params):
    blocks = params["stack"]["blocks"]
    return [np.asarray(blocks[name]["kernel"]) for name in ("in", "out")]


def test_the_cubic_schedule_has_plateaus():
    """Emmental's, of 100 steps with 10 of warm-up, once at first and twice at last."""
    pruner = Pruner("magnitude", "matrix", 0.15, begin=10, end=80)
    found = [pruner.fraction_kept(step) for step in (1, 10, 11, 45, 80, 81, 100)]
    expected = [1, 1, 0.15 + 0.85 * (69 / 70) ** 3, 0.25625, 0.15, 0.15, 0.15]
    np.testing.assert_allclose(found, expected, atol=2e-6)


def test_the_threshold_is_the_kth_largest_value_of_any_sign_and_size():
    rng = np.random.default_rng(0)
    values = rng.normal(size=41).astype(np.float32)
    special = [0.0, -0.0, np.inf, -np.inf, 1e-38, -1e-38, 1.0, 1.0]
    for own in (values, np.abs(values), values.round(1), np.float32(special)):
        found = jax.vmap(lambda k, own=own: pruning.kth_largest(jnp.array(own), k))(
            jnp.arange(1, len(own) + 1)
        )
        np.testing.assert_array_equal(found, np.sort(own)[::-1])


@pytest.mark.parametrize("scope", pruning.SCOPES)
def test_the_smallest_weights_are_pruned_for_good(scope):
    pruner = Pruner("magnitude", scope, 0.3, begin=2, end=8)
    history = run(pruner.wrap(optax.adam(0.1)), make_params(), 10)
    before = [np.ones(kernel.shape, bool) for kernel in kernels(history[0][1])]
    for number, (_, params) in enumerate(history, 1):
        now = [kernel != 0 for kernel in kernels(params)]
        for old, new in zip(before, now, strict=True):
            assert not (new & ~old).any()
        fraction = float(pruner.fraction_kept(number))
        if scope == "global":
            assert sum(map(np.sum, now)) == round(fraction * 2 * LAYERS * 20)
        else:
            counts = {int(n) for each in now for n in each.sum(axis=(1, 2))}
            assert counts == {round(fraction * 20)}
        before = now
    if scope == "global":  # weights of "out" are three times as large
        assert before[1].sum() > before[0].sum()
    _, params = history[-1]
    assert np.all(params["token"]["embedding"] != 0)
    assert np.all(params["stack"]["blocks"]["in"]["bias"] != 0)


def test_unpruned_weights_and_other_parameters_train_as_without_pruning():
    pruner = Pruner("magnitude", "matrix", 0.5, begin=0, end=1)
    plain, pruned = (
        run(optimizer, make_params(), 4)[-1][1]
        for optimizer in (optax.sgd(0.1), pruner.wrap(optax.sgd(0.1)))
    )
    for own, other in zip(kernels(pruned), kernels(plain), strict=True):
        assert (own == 0).mean() == 0.5
        np.testing.assert_array_equal(own[own != 0], other[own != 0])
    jax.tree.map(np.testing.assert_array_equal, pruned["token"], plain["token"])


@pytest.mark.parametrize("method", pruning.METHODS)
def test_a_method_reads_the_keys_that_are_said_to_be_read_with_it(method):
    """They alone change the update."""

    def program(**changes):
        optimizer = make_optimizer(section(prune=method, **changes), 1000)
        state = jax.eval_shape(optimizer.init, params)
        return jax.jit(optimizer.update).lower(params, state, params).as_text()

    params = make_params()
    own = program()
    for key, (needed, methods) in READ_WITH.items():
        name = key.removeprefix("optimizer.")
        if needed == "optimizer.prune":
            change = {name: "global" if name == "prune_scope" else 0.5}
            assert (program(**change) != own) == (method in methods), key


def test_movement_keeps_what_training_moves_away_from_0():
    """Step by step as the released code: scores learn by gradient x weight with Adam,
    the weight by gradient x mask, and the mask is the largest scores'."""
    rate = lambda count: 0.01  # noqa: E731
    pruner = Pruner("movement", "matrix", 0.4, begin=1, end=4, score_rate=rate)
    params = make_params()
    history = run(pruner.wrap(optax.sgd(0.1)), params, 6)
    weight = kernels(params)[0].astype(np.float64)
    mask, score = np.ones_like(weight), np.zeros_like(weight)
    first, second, came_back = 0.0, 0.0, False
    for number, (state, found) in enumerate(history, 1):
        grad = kernels(make_params(number))[0]
        slope = grad * weight
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        mean, square = first / (1 - 0.9**number), second / (1 - 0.999**number)
        score = score - 0.01 * mean / (np.sqrt(square) + 1e-8)
        weight = weight - 0.1 * grad * mask
        count = round(float(pruner.fraction_kept(number)) * 20)
        after = np.zeros_like(mask)
        for layer in range(LAYERS):
            chosen = np.argsort(score[layer].ravel())[-count:]
            after[layer].flat[chosen] = 1
        came_back |= bool((after > mask).any())
        mask = after
        np.testing.assert_allclose(kernels(found)[0], weight * mask, atol=1e-5)
        assert isinstance(state, Pruning)
    assert came_back and mask.mean() == 0.4


def test_soft_movement_has_a_threshold_and_a_penalty_that_rise():
    """Step by step as the released code, with the gradient of the mean sigmoid."""
    pruner = Pruner(
        "soft_movement",
        "matrix",
        0.4,
        begin=1,
        end=5,
        score_rate=lambda count: 0.5,
        threshold=0.4,
        penalty=30.0,
    )
    history = run(pruner.wrap(optax.sgd(0.1)), make_params(), 7)
    weight = [kernel.astype(np.float64) for kernel in kernels(make_params())]
    score = [np.zeros_like(each) for each in weight]
    mask = [np.ones_like(each) for each in weight]
    first, second = [0.0, 0.0], [0.0, 0.0]
    for number, (_, found) in enumerate(history, 1):
        risen = 1 - (1 - np.clip((number - 1) / 4, 0, 1)) ** 3
        for each, grad in enumerate(kernels(make_params(number))):
            own = 1 / (1 + np.exp(-score[each]))
            # 4 matrices of 20 elements
            penalty = 30 * risen * own * (1 - own) / (20 * 4)
            slope = grad * weight[each] + penalty
            first[each] = 0.9 * first[each] + 0.1 * slope
            second[each] = 0.999 * second[each] + 0.001 * slope**2
            mean, square = first[each] / (1 - 0.9**number), second[each]
            square = square / (1 - 0.999**number)
            score[each] = score[each] - 0.5 * mean / (np.sqrt(square) + 1e-8)
            weight[each] = weight[each] - 0.1 * grad * mask[each]
            largest = score[each].max(axis=(1, 2), keepdims=True)
            above = 1 / (1 + np.exp(-score[each])) > 0.4 * risen
            mask[each] = (above | (score[each] >= largest)).astype(float)
            expected = weight[each] * mask[each]
            np.testing.assert_allclose(kernels(found)[each], expected, atol=1e-4)
    fractions = [each.mean(axis=(1, 2)) for each in mask]
    assert 0 < np.mean(fractions) < 1 and np.ptp(fractions) > 0  # found by training


def test_pruning_ends_after_it_begins():
    with pytest.raises(
        UserError, match=r"prune_end is 0\.2; it must be at least .*, 0\.5"
    ):
        keys = {"prune": "magnitude", "prune_begin": 0.5, "prune_end": 0.2}
        make_optimizer(section(warmup_steps=0, **keys), 9)


@pytest.mark.parametrize("method", [m for m in pruning.METHODS if m != "none"])
def test_frozen_weights_stay_and_the_others_are_pruned_as_without_them(method):
    def without_out(seed=0):
        params = make_params(seed)
        del params["stack"]["blocks"]["out"]
        return params

    keys = dict(warmup_steps=0, prune=method, prune_scope="global", prune_kept=0.4)
    keys |= dict(prune_begin=0.0, prune_end=0.5, prune_threshold=0.6)
    params = make_params()
    frozen, alone = (
        make_optimizer(section(**keys, frozen=parts), 4)
        for parts in ("stack/blocks/out", "")
    )
    found = run(frozen, params, 4)[-1][1]
    expected = run(alone, without_out(), 4, draw=without_out)[-1][1]
    expected["stack"]["blocks"]["out"] = params["stack"]["blocks"]["out"]
    jax.tree.map(np.testing.assert_array_equal, found, expected)
    assert method == "l0" or 0.1 < (kernels(found)[0] == 0).mean() < 1


def test_where_all_kernels_are_frozen_none_can_be_pruned():
    optimizer = make_optimizer(section(prune="l0", frozen="network"), 500)
    with pytest.raises(UserError, match=r"all kernels of blocks are below .*frozen"):
        optimizer.init(make_params())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_runs.write_corpus(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("method", ["magnitude", "movement", "l0"])
def test_masks_are_sharded_as_their_parameters_and_checkpointed(folder, method):
    keys = {"optimizer.prune": method, "mesh.data": 1, "mesh.fsdp": 2}
    config = tiny_config(folder, "mlm", **keys)
    program = build_program(Config.of(config), jax.devices()[:2])
    state = program.abstract_state
    masks = state.opt_state.score if method == "l0" else state.opt_state.mask
    mask = masks["stack"]["blocks"]["feedforward"]["in"]["kernel"]
    kernel = state.params["stack"]["blocks"]["feedforward"]["in"]["kernel"]
    assert mask.dtype == (kernel.dtype if method == "l0" else bool)
    assert mask.shape == kernel.shape
    assert mask.sharding == kernel.sharding and not mask.sharding.is_fully_replicated
    assert random_state(program).opt_state.count.shape == ()


def hard_concrete(score, noise=None):
    """emmental's masked_nn.py, l0, in NumPy."""
    s = 1 / (1 + np.exp(-score))
    if noise is not None:
        s = 1 / (1 + np.exp(-(np.log(noise) - np.log(1 - noise) + score) / (2 / 3)))
    return np.clip(s * 1.2 - 0.1, 0, 1)


def test_l0_draws_gates_in_a_step_and_leaves_their_values_without_noise_between():
    """Step by step as the released code, whose gradients are finite differences here;
    the noise alone is read from the drawn parameters."""
    optimizer = l0_gates.with_gates(optax.sgd(0.1), 40.0, lambda count: 0.8)
    params = make_params()
    state, step = optimizer.init(params), jax.jit(optimizer.update)
    weight = [kernel.astype(np.float64) for kernel in kernels(params)]
    score = [np.full_like(each, 2.197) for each in weight]
    first, second, closed, noises = [0.0, 0.0], [0.0, 0.0], [], []
    for number in range(1, 9):
        key = jax.random.key(number)
        state, drawn = l0_gates.draw(state, params, key)
        noise = [
            np.clip(jax.random.uniform(jax.random.fold_in(key, n), each.shape), 1e-4, 1)
            for n, each in enumerate(weight)
        ]
        noises += [noise[0]]
        for each, found in enumerate(kernels(drawn)):
            gates = hard_concrete(score[each], noise[each])
            np.testing.assert_allclose(found, weight[each] * gates, atol=2e-4)
        jax.tree.map(np.testing.assert_array_equal, drawn["token"], params["token"])
        updates, state = step(make_params(number), state, params)
        params = optax.apply_updates(params, updates)
        for each, grad in enumerate(kernels(make_params(number))):
            own, tiny = score[each], 1e-6
            slope = hard_concrete(own + tiny, noise[each])
            slope = (slope - hard_concrete(own - tiny, noise[each])) / (2 * tiny)
            open_ = 1 / (1 + np.exp(-(own - 2 / 3 * np.log(0.1 / 1.1))))
            penalty = 40 * open_ * (1 - open_) / (20 * 4)  # 4 matrices of 20 elements
            gates = hard_concrete(own, noise[each])
            slope = grad * weight[each] * slope + penalty
            first[each] = 0.9 * first[each] + 0.1 * slope
            second[each] = 0.999 * second[each] + 0.001 * slope**2
            mean, square = first[each] / (1 - 0.9**number), second[each]
            square = square / (1 - 0.999**number)
            score[each] = own - 0.8 * mean / (np.sqrt(square) + 1e-8)
            weight[each] = weight[each] - 0.1 * grad * gates
            expected = weight[each] * hard_concrete(score[each])
            np.testing.assert_allclose(kernels(params)[each], expected, atol=1e-3)
        closed.append(np.mean([kernel == 0 for kernel in kernels(params)]))
    assert closed[0] == 0 < closed[-1] < 1
    assert not np.array_equal(noises[0], noises[1])


def test_a_gate_is_open_with_the_probability_of_its_penalty():
    """Louizos et al. 2018, equation 12, over 20,000 draws."""
    score = jnp.full(20_000, -0.4)
    drawn = l0_gates.gate(score, jax.random.uniform(jax.random.key(0), score.shape))
    expected = float(l0_gates.penalty(score))
    assert 0 < expected < 1 and drawn.min() == 0 and drawn.max() == 1
    margin = 4 * np.sqrt(expected * (1 - expected) / score.size)
    assert abs(float((drawn > 0).mean()) - expected) < margin


def test_a_network_without_blocks_cannot_be_pruned(tmp_path):
    params = {"stack": {"block_0": {"kernel": jnp.ones((2, 2))}}}
    options = networks.from_config({"network": "lstm"})
    program = SimpleNamespace(network=SimpleNamespace(options=options))
    with pytest.raises(UserError, match=r"--recipe=prune .*=lstm has none"):
        recipes.prune(program, params, recipes.Request())
    keys = {"model.network": "lstm", "optimizer.prune": "magnitude"}
    keys |= dict.fromkeys(("model.heads", "model.feedforward"))
    config = tiny_config(tmp_path, "lm", **keys)
    with pytest.raises(UserError, match=r"prune=magnitude .*=lstm has none"):
        build_program(Config.of(config), jax.devices()[:1], vocab())


@pytest.mark.parametrize("kind", ["binary", "split"])
def test_weights_that_are_never_zero_cannot_be_pruned(kind, tmp_path):
    options = model_options(quantization=kind)
    with pytest.raises(UserError, match=f"=x leaves weights of 0.*={kind} does not"):
        pruning.check_prunable(options, make_params(), "optimizer.prune=x")
    program = SimpleNamespace(network=SimpleNamespace(options=options))
    with pytest.raises(UserError, match="--recipe=prune leaves weights of 0"):
        recipes.prune(program, make_params(), recipes.Request())
    keys = {"model.quantization": kind, "optimizer.prune": "magnitude"}
    config = tiny_config(tmp_path, **keys)
    with pytest.raises(UserError, match=r"prune=magnitude leaves weights"):
        build_program(Config.of(config), jax.devices()[:1], vocab())


def test_a_pruned_network_is_not_made_binary():
    program = SimpleNamespace(network=SimpleNamespace(options=model_options()))
    params = pruning.prune_smallest(make_params(), 0.25, "matrix")
    with pytest.raises(UserError, match="75% of the weights of blocks are 0"):
        recipes.to_integers(program, params, recipes.Request(), kind="binary")
    assert recipes.to_integers(program, params, recipes.Request(), kind="ternary")


@pytest.mark.parametrize(("layers", "has_norm"), [((1,), True), ((0,), False)])
def test_a_layer_that_becomes_the_first_keeps_its_norm(layers, has_norm):
    options = model_options(layers=2, first_attention_norm=False)
    program = SimpleNamespace(network=SimpleNamespace(options=options))
    shrunk = recipes.keep_layers(program, make_params(), recipes.Request(layers=layers))
    assert shrunk.keys.get("first_attention_norm", False) is has_norm
