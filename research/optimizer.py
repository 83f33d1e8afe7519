"""The config's optimizer section as an optax transformation."""

from typing import Any

import jax
import jax.numpy as jnp
import optax

from research.errors import UserError, unknown

SCHEDULES = ("constant", "linear", "cosine", "rsqrt")
OPTIMIZERS = ("adamw", "adam", "adafactor", "lamb", "sgd")


def schedule(config: Any, steps: int) -> optax.Schedule:
    """Learning rate by step: linear warm-up to the peak, then the named decay.

    Args:
      config: the config's optimizer section.
      steps: of the whole run; linear and cosine end there, at final_rate x peak.
    """
    peak, warmup = config.learning_rate, config.warmup_steps
    if warmup >= steps:
        raise UserError(
            f"optimizer.warmup_steps={warmup} leaves nothing of train.steps={steps}; "
            "make it smaller"
        )
    rest = steps - warmup

    def rsqrt(step):
        start = max(warmup, 1)
        return peak * (start / (start + jnp.maximum(step, 0))) ** 0.5

    decays = {
        "constant": lambda: optax.constant_schedule(peak),
        "linear": lambda: optax.linear_schedule(peak, peak * config.final_rate, rest),
        "cosine": lambda: optax.cosine_decay_schedule(peak, rest, config.final_rate),
        "rsqrt": lambda: rsqrt,
    }
    if config.schedule not in decays:
        raise unknown("optimizer.schedule", config.schedule, decays)
    decay = decays[config.schedule]()
    if not warmup:
        return decay
    # Step 0 already moves: the warm-up runs over peak/warmup, 2 peak/warmup, ... peak.
    rise = optax.linear_schedule(peak / warmup, peak, max(warmup - 1, 1))
    return optax.join_schedules([rise, decay], [warmup])


def decays_weight(params: Any) -> Any:
    """True for matrices and tables, False for biases and the gains of norms.

    A block's parameters are stacked over layers, so the rank of an array does not
    tell a bias; its name does.
    """

    def matrix(path, _):
        return str(path[-1].key) not in ("bias", "scale")

    return jax.tree_util.tree_map_with_path(matrix, params)


def make_optimizer(config: Any, steps: int) -> optax.GradientTransformation:
    """Clipping by global norm, then the named optimizer on its schedule.

    Raises:
      UserError: an unknown name, or a warm-up as long as the run.
    """
    rate = schedule(config, steps)
    b1, b2, eps = config.beta1, config.beta2, config.epsilon
    decay = dict(weight_decay=config.weight_decay, mask=decays_weight)
    makers = {
        "adamw": lambda: optax.adamw(rate, b1, b2, eps, **decay),
        "adam": lambda: optax.adam(rate, b1, b2, eps),
        "adafactor": lambda: optax.adafactor(
            rate,
            weight_decay_rate=config.weight_decay or None,
            weight_decay_mask=decays_weight,
        ),
        "lamb": lambda: optax.lamb(rate, b1, b2, eps, **decay),
        "sgd": lambda: optax.sgd(rate, config.beta1),
    }
    if config.name not in makers:
        raise unknown("optimizer.name", config.name, makers)
    optimizer = makers[config.name]()
    if config.clip:
        optimizer = optax.chain(optax.clip_by_global_norm(config.clip), optimizer)
    return optimizer
