"""The learning rate by step: a warm-up to the peak, then the chosen decay."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from research.contract.errors import UserError
from research.optimize.options import OptimizerOptions
from research.optimize.schedules.shared.ending_schedule import EndingSchedule


def make_schedule(config: OptimizerOptions, steps: int) -> optax.Schedule:
    """The learning rate by step: a warm-up to the peak, then the chosen decay.

    With decay_from "start" the decay counts from step 0, and the warm-up replaces its
    first steps: the rate is peak x step / warmup_steps before warmup_steps, and with a
    linear schedule peak x (1 - step / steps) from there on (google-research/bert,
    optimization.py; openai/finetune-transformer-lm, opt.py, with a cosine). With
    "warmup" the decay counts from the end of the warm-up, and the rate at step s of the
    warm-up is peak x (s + 1) / warmup_steps, so that step 0 already learns; fairseq and
    XLM are one step behind this. With warmup "from_zero" it is peak x s / warmup_steps
    (transformers, optimization.py; pytorch_pretrained_bert, BertAdam; XLNet).

    With warmup "slanted" the rate rises from the value at which the decay ends; with a
    linear schedule and a final_fraction of 1/32 it is the slanted triangular rate of
    Howard and Ruder 2018 (equation 3, with warmup_steps = cut and ratio = 32).

    Args:
      config: the config's optimizer section.
      steps: steps of the whole run, at whose end the decay ends if it has an end.

    Raises:
      UserError: the warm-up is as long as the run, or it is slanted and the schedule
        has no end.
    """
    peak, warmup = config.learning_rate, config.warmup_steps
    if warmup >= steps:
        raise UserError(
            f"optimizer.warmup_steps={warmup} leaves nothing of train.steps={steps}; "
            "make it smaller"
        )
    from_start = config.decay_from == "start"
    origin = 0 if from_start else warmup  # the step from which the decay counts
    schedule = config.decay
    decay = schedule.decay(config, steps - origin)
    if not warmup:
        return decay
    zero_first = from_start or config.warmup == "from_zero"
    first = 0 if zero_first else 1  # rate at step 0 x warmup_steps / peak
    linear = partial(
        optax.linear_schedule, first * peak / warmup, peak, max(warmup - first, 1)
    )
    rises: dict[str, Callable[[], optax.Schedule]] = {
        "linear": linear,
        "from_zero": linear,
        "slanted": lambda: optax.linear_schedule(
            peak * _final_fraction(schedule, config.schedule), peak, warmup
        ),
        "factor": lambda: (
            lambda step: (step + first) / warmup * decay(jnp.maximum(step - origin, 0))
        ),
        "constant": lambda: optax.constant_schedule(peak),
    }
    rise = rises[config.warmup]()
    return optax.join_schedules(
        [rise, lambda count: decay(count + warmup - origin)], [warmup]
    )


def logged_rates(config: OptimizerOptions, steps: int, log_every: int) -> np.ndarray:
    """The learning rates [N] of the steps that are logged, on the host.

    Step n of a run, counted from 1, has the schedule's rate at n - 1.

    Args:
      config: the config's optimizer section.
      steps: steps of the whole run; the last one is also logged.
    """
    logged = np.append(np.arange(log_every, steps, log_every), steps)
    schedule = jax.jit(jax.vmap(make_schedule(config, steps)))
    return np.asarray(schedule(logged - 1))


def _final_fraction(schedule: Any, name: str) -> float:
    """The fraction of the peak at which a schedule ends.

    Raises:
      UserError: the schedule has no end.
    """
    if not isinstance(schedule, EndingSchedule):
        raise UserError(
            "optimizer.warmup=slanted rises from where the decay ends, but "
            f"optimizer.schedule={name} has no end; change one of the two"
        )
    return schedule.final_fraction
