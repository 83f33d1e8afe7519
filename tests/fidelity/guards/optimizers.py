"""Guards of optimizers: their first rate, clipping, trust ratio, and Adafactor."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from research.config import sections
from research.config.config import Config
from research.contract.parts import make_section
from research.optimize.moving_average import with_average_of_steps
from research.optimize.optimizer import make_optimizer
from research.optimize.options import OptimizerOptions
from research.optimize.schedule import make_schedule
from tests.fidelity.guards.registry import guard, phrase
from tests.fidelity.table import System


def section(system: System, **changes: Any) -> OptimizerOptions:
    """The optimizer's section at the first published size, with changes.

    Keys that an optimizer or schedule of the changes does not have are left out.
    """
    values = system.config(system.sizes[0]).optimizer.to_dict() | changes
    complete = sections.section_defaults("optimizer", values)
    return make_section(OptimizerOptions, complete, "optimizer.")


def unit_rate(system: System, **changes: Any) -> OptimizerOptions:
    """The same with a rate of 1 in all steps; nothing is frozen."""
    constant = {"learning_rate": 1.0, "schedule": "constant", "warmup_steps": 0}
    return section(system, **constant | {"frozen": ""} | changes)


def first_updates(config: Any, params: Any, grads: Any, steps: int = 1) -> Any:
    """The updates of the last of some steps, each with these gradients."""
    optimizer = make_optimizer(config, 1000)
    state = optimizer.init(params)
    for _ in range(steps):
        updates, state = optimizer.update(grads, state, params)
    return updates


@guard("rate of the first step, in parts of peak / warm-up")
def first_rate(system: System):
    config = system.config(system.sizes[0])
    peak, warmup = config.optimizer.learning_rate, config.optimizer.warmup_steps
    first = float(make_schedule(Config.of(config).optimizer, config.train.steps)(0))
    return round(first / peak * warmup, 2)


@guard("clipping")
def clipping(system: System):
    """Of gradients of two stacks, of which one is below the norm and one above."""
    norm = section(system).clip_norm
    grads = {
        "encoder": {"a": jnp.array([0.3]), "b": jnp.array([0.4])},
        "decoder": {"a": jnp.array([3.0]), "b": jnp.array([0.4])},
    }
    grads = jax.tree.map(lambda x: x * (norm or 1), grads)
    plain = unit_rate(system, name="sgd", beta1=0.0)
    got = first_updates(plain, grads, grads)
    scale = jax.tree.map(lambda u, g: float(-(u / g)[0]), got, grads)
    values = [scale[s][p] for s in ("encoder", "decoder") for p in "ab"]
    whole = 1 / np.sqrt(0.3**2 + 0.4**2 + 3.0**2 + 0.4**2)
    stack = 1 / np.sqrt(3.0**2 + 0.4**2)
    kinds = {
        "none": [1, 1, 1, 1],
        "the norm of the whole batch's gradient": [whole] * 4,
        "the norm of each parameter's gradient": [1, 1, 1 / 3, 1],
        "the norms of encoder and decoder apart": [1, 1, stack, stack],
    }
    return phrase({k: np.allclose(values, v, rtol=1e-3) for k, v in kinds.items()})


@guard("trust ratio")
def trust_ratio(system: System):
    """Of a kernel that all layers share, with two matrices, and of a bias."""
    config = unit_rate(system, weight_decay=0.0, clip_norm=0.0)
    params = {
        "stack": {"blocks": {"kernel": jnp.array([[[2.0]], [[4.0]]])}},
        "embedding": {"bias": jnp.array([3.0])},
    }
    got = first_updates(config, params, jax.tree.map(jnp.ones_like, params))
    config = unit_rate(system, name="adam", clip_norm=0.0)
    adam = first_updates(config, params, jax.tree.map(jnp.ones_like, params))
    ratio = jax.tree.map(lambda a, b: np.ravel(a / b), got, adam)
    kernel = ratio["stack"]["blocks"]["kernel"] * abs(
        np.ravel(adam["stack"]["blocks"]["kernel"])
    )
    bias = ratio["embedding"]["bias"][0] * abs(float(adam["embedding"]["bias"][0]))
    assert np.allclose(kernel, [2, 4], rtol=1e-3), kernel
    return phrase(
        {
            "of matrices and embeddings alone": np.isclose(
                ratio["embedding"]["bias"][0], 1
            ),
            "of biases and norms as well": np.isclose(bias, 3, rtol=1e-3),
        }
    )


@guard("rate of the second step, in parts of peak / warm-up")
def second_rate(system: System):
    config = system.config(system.sizes[0])
    peak, warmup = config.optimizer.learning_rate, config.optimizer.warmup_steps
    second = float(make_schedule(Config.of(config).optimizer, config.train.steps)(1))
    return round(second / peak * warmup, 2)


@guard("decay of Adafactor's second moment")
def adafactor_decay(system: System):
    """From a gradient of 1 in one step and 3 in the next, at a parameter of size 1."""
    config = unit_rate(system)
    optimizer = make_optimizer(config, 1000)
    params = {"scale": jnp.ones(4)}
    state = optimizer.init(params)
    for grad in (1.0, 0.5):
        grads = {"scale": jnp.full(4, grad)}
        updates, state = optimizer.update(grads, state, params)
    found = float(updates["scale"][0])
    moments = {
        f"1 - t^-{power}": 2.0**-power * 0.25 + (1 - 2.0**-power)
        for power in (0.8, 0.5)
    }
    return phrase(
        {name: np.isclose(-found, 0.5 / v**0.5, 1e-3) for name, v in moments.items()}
    )


@guard("clipping of updates")
def adafactor_clipping(system: System):
    """The root mean square of the update after a gradient that suddenly grows."""
    optimizer = make_optimizer(unit_rate(system), 1000)
    params = {"scale": jnp.ones(4)}
    state = optimizer.init(params)
    for grad in (1e-3, 1e-3, 1e-3, 1.0):
        grads = {"scale": jnp.full(4, grad)}
        updates, state = optimizer.update(grads, state, params)
    return round(float(jnp.sqrt(jnp.mean(updates["scale"] ** 2))), 3)


@guard("scale of updates")
def adafactor_scale(system: System):
    """Of parameters with a root mean square of 0.5, and of 0."""
    params = {"a": jnp.full(4, 0.5), "b": jnp.zeros(4)}
    updates = first_updates(
        unit_rate(system), params, jax.tree.map(jnp.ones_like, params)
    )
    sizes = [float(abs(updates[name][0])) for name in "ab"]
    return phrase(
        {"the parameter's RMS, at least 0.001": np.allclose(sizes, [0.5, 1e-3], 1e-3)}
    )


@guard("smallest dims with a factored moment")
def adafactor_factored(system: System):
    """The least size of a square matrix whose moments are a row and a column."""
    optimizer = make_optimizer(unit_rate(system), 1000)
    for size in (32, 64, 127, 128, 129, 256):
        shapes = {
            leaf.shape
            for leaf in jax.tree.leaves(
                jax.eval_shape(optimizer.init, {"kernel": jnp.ones((size, size))})
            )
        }
        if (size,) in shapes and (size, size) not in shapes:
            return size
    return 0


@guard("rate of a batch")
def rate_of_a_batch(system: System):
    """Of a gradient of 1: the update does not know how long rows are."""
    config = system.config(system.sizes[0])
    first, second = (
        make_schedule(Config.of(config).optimizer, config.train.steps)(step)
        for step in (0, 1000)
    )
    return phrase({"the same for all": float(first) == float(second)})


@guard("average of steps")
def average_of_steps(system: System):
    """Of the iterates 1, 2 and 4 from the first step on."""
    optimizer = with_average_of_steps(optax.identity(), 0)
    params = np.zeros(())
    state = optimizer.init(params)
    for update in (1.0, 1.0, 2.0):
        _, state = optimizer.update(np.float32(update), state, params)
        params = params + update
    average = float(state[-1].average)
    return phrase({"without the first iterate": average == 3.0, "of all": average < 3})
