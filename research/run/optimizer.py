"""The config's optimizer section as an optax transformation."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from research import models
from research.errors import UserError


def schedule(config: Any, steps: int) -> optax.Schedule:
    """Learning rate by step: a warm-up to the peak, then the named decay.

    rsqrt is peak x sqrt(warmup_steps / step); with a constant warm-up of 10,000 steps
    and a peak of 0.01 that is T5's 1 / sqrt(max(step, 10,000)).

    Args:
      config: the config's optimizer section.
      steps: of the whole run; linear, polynomial and cosine end there, at
        final_fraction x peak.
    """
    peak, warmup = config.learning_rate, config.warmup_steps
    if warmup >= steps:
        raise UserError(
            f"optimizer.warmup_steps={warmup} leaves nothing of train.steps={steps}; "
            "make it smaller"
        )
    rest, end = steps - warmup, peak * config.final_fraction

    def rsqrt(step):
        start = max(warmup, 1)
        return peak * (start / (start + jnp.maximum(step, 0))) ** 0.5

    decays = {
        "constant": lambda: optax.constant_schedule(peak),
        "linear": lambda: optax.linear_schedule(peak, end, rest),
        "polynomial": lambda: optax.polynomial_schedule(peak, end, config.power, rest),
        "cosine": lambda: optax.cosine_decay_schedule(
            peak, rest, config.final_fraction
        ),
        "rsqrt": lambda: rsqrt,
    }
    decay = decays[config.schedule]()
    if not warmup:
        return decay
    # Step 0 already moves: the warm-up runs over peak/warmup, 2 peak/warmup, ... peak.
    rise = optax.linear_schedule(peak / warmup, peak, max(warmup - 1, 1))
    if config.warmup == "constant":
        rise = optax.constant_schedule(peak)
    return optax.join_schedules([rise, decay], [warmup])


def decays_weight(params: Any) -> Any:
    """True for matrices and tables, False for biases and the gains of norms.

    A block's parameters are stacked over layers, so the rank of an array does not
    tell a bias; its name does.
    """

    def matrix(path, _):
        name = str(path[-1].key)
        return name != "scale" and not name.endswith("bias")

    return jax.tree_util.tree_map_with_path(matrix, params)


def make_optimizer(config: Any, steps: int) -> optax.GradientTransformation:
    """Clipping by global norm, then the named optimizer on its schedule.

    Raises:
      UserError: the warm-up is as long as the run.
    """
    rate = optax.scale_by_learning_rate(schedule(config, steps))
    adam = partial(_scale_by_adam, config)
    decay = partial(optax.add_decayed_weights, config.weight_decay, decays_weight)
    makers = {
        "adamw": lambda: [adam(), decay(), rate],
        "adam": lambda: [adam(), rate],
        "adafactor": lambda: [*_adafactor(), decay(), rate],
        "lamb": lambda: [adam(), decay(), optax.stateless(_trusted), rate],
        "sgd": lambda: [optax.trace(config.beta1), rate],
    }
    chain = makers[config.name]()
    if config.layer_decay < 1:
        chain.append(optax.stateless(partial(_by_depth, config.layer_decay)))
    optimizer = optax.chain(*chain)
    if config.clip_norm:
        optimizer = optax.chain(optax.clip_by_global_norm(config.clip_norm), optimizer)
    return optimizer


def _scale_by_adam(config: Any) -> optax.GradientTransformation:
    """m / (sqrt(v) + epsilon), of moments that may keep their bias toward zero.

    Without the correction the first steps are larger: by (1 - beta1) / sqrt(1 - beta2)
    in the first one (Devlin et al. 2019, the released code).
    """
    b1, b2, epsilon = config.beta1, config.beta2, config.epsilon
    corrected = optax.scale_by_adam(b1, b2, epsilon)
    if config.bias_correction:
        return corrected

    def update(grads, state, params=None):
        mu = optax.tree.update_moment(grads, state.mu, b1, 1)
        nu = optax.tree.update_moment(grads, state.nu, b2, 2)
        updates = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + epsilon), mu, nu)
        return updates, optax.ScaleByAdamState(state.count + 1, mu, nu)

    return optax.GradientTransformation(corrected.init, update)


def _adafactor() -> list[optax.GradientTransformation]:
    """Shazeer and Stern 2018, algorithm 5, with T5's settings.

    A factored second moment with decay 1 - t^-0.8 where both sides are 128 or more, no
    first one; updates of a root mean square of at most 1, times the parameter's own,
    which counts as 0.001 at least.
    """

    def clipped(updates, params):
        return _by_matrix(lambda u: u / jnp.maximum(1.0, _rms(u)), updates)

    def scaled(updates, params):
        return _by_matrix(lambda u, p: u * jnp.maximum(_rms(p), 1e-3), updates, params)

    return [
        optax.scale_by_factored_rms(),
        optax.stateless(clipped),
        optax.stateless(scaled),
    ]


def _rms(x):
    return jnp.sqrt(jnp.mean(jnp.square(x)))


def _trusted(updates: Any, params: Any) -> Any:
    """LAMB's step as long as the parameter, but for biases and norms (You et al. 2020).

    Those keep Adam's, as in ALBERT's released code.
    """

    def matrix(update, param):
        ratio = _rms(param) / jnp.where(_rms(update) > 0, _rms(update), 1.0)
        moves = (_rms(param) > 0) & (_rms(update) > 0)
        return update * jnp.where(moves, ratio, 1.0)

    scaled = _by_matrix(matrix, updates, params)
    chosen = decays_weight(params)
    return jax.tree.map(lambda yes, a, b: a if yes else b, chosen, scaled, updates)


def _by_matrix(fn: Callable, updates: Any, *others: Any) -> Any:
    """`fn` of each parameter; of blocks, which are stacked, layer by layer."""

    def one(depth, *leaves):
        return jax.vmap(fn)(*leaves) if np.ndim(depth) else fn(*leaves)

    return jax.tree.map(one, models.layer_depths(updates), updates, *others)


def _by_depth(decay: float, updates: Any, params: Any) -> Any:
    """Updates x decay^(how many parts of the network lie above the parameter).

    Heads move at the whole rate, the last block at decay^2, the first of n at
    decay^(n + 1), tables at decay^(n + 2) (Clark et al. 2020, the released code).
    """
    depths = models.layer_depths(updates)
    blocks = [len(depth) for depth in jax.tree.leaves(depths) if np.ndim(depth)]
    top = 2 + max(blocks, default=0)

    def one(depth, update):
        share = jnp.asarray(decay ** (top - depth), update.dtype)
        return update * share.reshape(-1, *[1] * (update.ndim - 1))

    return jax.tree.map(one, depths, updates)
