"""The config's optimizer section as an optax gradient transformation."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from research import networks
from research.errors import UserError
from research.moving_average import with_moving_average
from research.run.layer_rates import scale_by_depth, unfreeze_gradually

QUERY_BIASES = ("content_bias", "position_bias", "segment_bias")
"""Parameters of `research.networks.layers.relative.RelativeTerms`."""


def make_schedule(config: Any, steps: int) -> optax.Schedule:
    """The learning rate by step: a warm-up to the peak, then the named decay.

    With decay_from "start" the decay counts from step 0, and the warm-up replaces its
    first steps: the rate is peak x step / warmup_steps before warmup_steps, and with a
    linear schedule peak x (1 - step / steps) from there on (google-research/bert,
    optimization.py; openai/finetune-transformer-lm, opt.py, with a cosine). With
    "warmup" it counts from the end of the warm-up, and the rate of step s of the
    warm-up is peak x (s + 1) / warmup_steps, so that step 0 already learns; fairseq,
    XLNet and XLM are one step behind there.

    With warmup "slanted" the rate rises from where the decay ends; with a linear
    schedule and a final_fraction of 1/32 these are slanted triangular rates (Howard and
    Ruder 2018, equation 3, with warmup_steps = cut and ratio = 32).

    rsqrt is peak x sqrt(warmup_steps / step); with a constant warm-up of 10,000 steps
    and a peak of 0.01 that is T5's 1 / sqrt(max(step, 10,000)) (Raffel et al. 2020,
    section 3.1.2).

    With decay_fraction below 1 the rate stays at its peak until so many steps are left
    (Hu et al. 2024, MiniCPM, section 4.1: warm-up, stable, decay).

    Args:
      config: the config's optimizer section.
      steps: of the whole run; linear, polynomial and cosine end there, at
        final_fraction x peak.

    Raises:
      UserError: the warm-up is as long as the run, or a schedule without an end has a
        decay_fraction.
    """
    peak, warmup = config.learning_rate, config.warmup_steps
    if warmup >= steps:
        raise UserError(
            f"optimizer.warmup_steps={warmup} leaves nothing of train.steps={steps}; "
            "make it smaller"
        )
    from_start = config.decay_from == "start"
    origin = 0 if from_start else warmup  # the step from which the decay counts
    decay = _decay(config, steps - origin)
    if not warmup:
        return decay
    first = 0 if from_start else 1  # at step 0, of warmup_steps parts of the peak
    end = peak * config.final_fraction
    rises = {
        "linear": optax.linear_schedule(
            first * peak / warmup, peak, max(warmup - first, 1)
        ),
        "slanted": optax.linear_schedule(end, peak, warmup),
        "factor": lambda step: (
            (step + first) / warmup * decay(jnp.maximum(step - origin, 0))
        ),
        "constant": optax.constant_schedule(peak),
    }
    return optax.join_schedules(
        [rises[config.warmup], lambda count: decay(count + warmup - origin)], [warmup]
    )


def _decay(config: Any, steps: int) -> optax.Schedule:
    """The stable phase and the decay of `make_schedule`, by steps from their origin.

    Args:
      steps: of the run from the origin on.

    Raises:
      UserError: a schedule without an end has a decay_fraction.
    """
    peak, end = config.learning_rate, config.learning_rate * config.final_fraction
    decay_steps = max(1, round(config.decay_fraction * steps))
    stable_steps = steps - decay_steps
    if stable_steps and config.schedule in ("constant", "rsqrt"):
        raise UserError(
            f"optimizer.decay_fraction is {config.decay_fraction}, but the schedule "
            f"{config.schedule} has no end; set it to 1"
        )
    decays = {
        "constant": lambda: optax.constant_schedule(peak),
        "linear": lambda: optax.linear_schedule(peak, end, decay_steps),
        "polynomial": lambda: optax.polynomial_schedule(
            peak, end, config.power, decay_steps
        ),
        "cosine": lambda: optax.cosine_decay_schedule(
            peak, decay_steps, config.final_fraction
        ),
        "rsqrt": lambda: partial(_rsqrt, config),
    }
    decay = decays[config.schedule]()
    if not stable_steps:
        return decay
    return lambda count: decay(jnp.maximum(count - stable_steps, 0))


def _rsqrt(config: Any, count: Any) -> Any:
    """The rate of the schedule rsqrt, `count` steps after the decay's origin."""
    start = max(config.warmup_steps, 1)
    if config.decay_from == "start":
        after = jnp.maximum(count, start)
    else:
        after = start + jnp.maximum(count, 0)
    return config.learning_rate * (start / after) ** 0.5


def decayed_params(params: Any, which: str = "matrices") -> Any:
    """True for each parameter that `weight_decay` applies to.

    - "matrices": matrices and embeddings, but no biases and scales of norms (Devlin et
      al. 2019, the released code).
    - "query_biases": also the biases that relative attention adds to its queries, r_w,
      r_r and r_s (zihangdai/xlnet, model_utils.py, include_in_weight_decay).
    - "all": every parameter (fairseq/optim/adam.py, to which the trainer hands all
      parameters as one group).

    The parameters of blocks are stacked over layers, so a bias is recognised by its
    name, not by the number of its dims.
    """

    def is_decayed(path, _):
        name = str(path[-1].key)
        if which == "query_biases" and name in QUERY_BIASES:
            return True
        return which == "all" or not (name == "scale" or name.endswith("bias"))

    return jax.tree_util.tree_map_with_path(is_decayed, params)


def is_frozen(params: Any, parts: str) -> Any:
    """True for each parameter below one of the parts, which are "a,b/c,...".

    Raises:
      UserError: there is no such part.
    """
    names = [part.strip() for part in parts.split(",")]
    leaves = jax.tree_util.tree_leaves_with_path(params)
    paths = ["/".join(str(key.key) for key in path) + "/" for path, _ in leaves]
    for name in names:
        if not any(path.startswith(f"{name}/") for path in paths):
            known = sorted({path.partition("/")[0] for path in paths})
            raise UserError(
                f"optimizer.frozen: no parameter is below {name!r}; the network has "
                f"{', '.join(known)}"
            )
    frozen = [path.startswith(tuple(f"{name}/" for name in names)) for path in paths]
    return jax.tree.unflatten(jax.tree.structure(params), frozen)


def stop_frozen(params: Any, parts: str) -> Any:
    """The parameters, without gradient through those below the parts; "": none."""
    if not parts:
        return params
    return jax.tree.map(
        lambda leaf, stops: jax.lax.stop_gradient(leaf) if stops else leaf,
        params,
        is_frozen(params, parts),
    )


def make_optimizer(config: Any, steps: int) -> optax.GradientTransformation:
    """Clipping by global norm, then the named optimizer on its schedule, then the
    average of the parameters.

    Frozen parameters count for no norm and do not decay.

    Raises:
      UserError: see `make_schedule`.
    """
    rate = optax.scale_by_learning_rate(make_schedule(config, steps))
    adam = partial(_scale_by_adam, config)
    decayed = partial(decayed_params, which=config.decay_params)
    decay = partial(optax.add_decayed_weights, config.weight_decay, decayed)
    trust_ratio = partial(_scale_by_trust_ratio, decayed)
    makers = {
        "adamw": lambda: [adam(), decay(), rate],
        "adam": lambda: [adam(), rate],
        "adafactor": lambda: [*_adafactor(), decay(), rate],
        "lamb": lambda: [adam(), decay(), optax.stateless(trust_ratio), rate],
        "sgd": lambda: [optax.trace(config.beta1), rate],
    }
    chain = makers[config.name]()
    if config.layer_decay < 1:
        chain.append(optax.stateless(partial(scale_by_depth, config.layer_decay)))
    if config.unfreeze_every:
        chain.append(unfreeze_gradually(config.unfreeze_every, steps))
    optimizer = optax.chain(*chain)
    if config.clip_norm:
        optimizer = optax.chain(optax.clip_by_global_norm(config.clip_norm), optimizer)
    if config.frozen:
        freeze = optax.masked(
            optax.set_to_zero(), partial(is_frozen, parts=config.frozen)
        )
        optimizer = optax.chain(freeze, optimizer, freeze)
    if config.ema_decay:
        optimizer = with_moving_average(optimizer, config.ema_decay)
    return optimizer


def _scale_by_adam(config: Any) -> optax.GradientTransformation:
    """Adam's m / (sqrt(v) + epsilon), with or without bias correction.

    Without it the first steps are larger: the first one by (1 - beta1) /
    sqrt(1 - beta2) (Devlin et al. 2019, the released code). With epsilon_place "before"
    the correction is a factor of the rate: epsilon then counts 1 / sqrt(1 - beta2^t)
    times in step t (Kingma and Ba 2015, end of section 2: epsilon-hat;
    fairseq/optim/adam.py; xlm/optim.py; openai/finetune-transformer-lm, opt.py).
    """
    b1, b2, epsilon = config.beta1, config.beta2, config.epsilon
    corrected = optax.scale_by_adam(b1, b2, epsilon)
    if config.bias_correction and config.epsilon_place == "after":
        return corrected

    def update(grads, state, params=None):
        mu = optax.tree.update_moment(grads, state.mu, b1, 1)
        nu = optax.tree.update_moment(grads, state.nu, b2, 2)
        count = optax.safe_increment(state.count)
        rate = 1.0
        if config.bias_correction:
            rate = jnp.sqrt(1 - b2**count) / (1 - b1**count)
        updates = jax.tree.map(lambda m, v: rate * m / (jnp.sqrt(v) + epsilon), mu, nu)
        return updates, optax.ScaleByAdamState(count, mu, nu)

    return optax.GradientTransformation(corrected.init, update)


def _adafactor() -> list[optax.GradientTransformation]:
    """Shazeer and Stern 2018, algorithm 5, with T5's settings.

    The second moment has decay 1 - t^-0.8 and is factored where both dims are at least
    128; there is no first moment. Updates are clipped to a root mean square (RMS) of 1
    and multiplied by the RMS of the parameter, or 0.001 if that is larger.
    """

    def clip(updates, params):
        return _by_matrix(lambda u: u / jnp.maximum(1.0, _rms(u)), updates)

    def scale(updates, params):
        return _by_matrix(lambda u, p: u * jnp.maximum(_rms(p), 1e-3), updates, params)

    return [
        optax.scale_by_factored_rms(),
        optax.stateless(clip),
        optax.stateless(scale),
    ]


def _rms(x):
    return jnp.sqrt(jnp.mean(jnp.square(x)))


def _scale_by_trust_ratio(decayed: Callable, updates: Any, params: Any) -> Any:
    """LAMB's updates, each as long as its parameter (You et al. 2020).

    Parameters that do not decay keep Adam's updates, as in ALBERT's released code.
    """

    def scale(update, param):
        ratio = _rms(param) / jnp.where(_rms(update) > 0, _rms(update), 1.0)
        has_ratio = (_rms(param) > 0) & (_rms(update) > 0)
        return update * jnp.where(has_ratio, ratio, 1.0)

    return jax.tree.map(
        lambda is_scaled, scaled, update: scaled if is_scaled else update,
        decayed(params),
        _by_matrix(scale, updates, params),
        updates,
    )


def _by_matrix(fn: Callable, updates: Any, *others: Any) -> Any:
    """Maps `fn` over parameters; over each layer of those that are stacked (blocks)."""

    def apply(depth, *leaves):
        return jax.vmap(fn)(*leaves) if np.ndim(depth) else fn(*leaves)

    return jax.tree.map(apply, networks.layer_depths(updates), updates, *others)
