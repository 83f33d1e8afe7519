"""Budgets of a sweep: the steps that equal tokens, FLOPs or seconds come to.

A sweep states one budget, and each trial's `train.steps` follows from its config alone,
so that the ids of trials do not depend on the machine: FLOPs are counted on the step's
jaxpr, and seconds follow from rates that the sweep file pins.
"""

from collections.abc import Mapping
from typing import Any

from launch import config
from research.errors import UserError

ON_ONE_DEVICE = {"mesh.data": 1, "mesh.fsdp": 1, "mesh.tensor": 1}
"""FLOPs are those of the whole batch: they do not depend on the mesh."""


def steps_for_tokens(experiment: str, keys: Mapping[str, Any], tokens: float) -> int:
    """The steps whose batches have some number of tokens, counted before corruption.

    Args:
      experiment, keys: as a sweep yields them; keys that stand for another trial's
        folder are left out.

    Raises:
      UserError: a wrong config, one with phases, or a budget below one step.
    """
    return _steps(experiment, tokens / tokens_per_step(experiment, keys))


def steps_for_flops(experiment: str, keys: Mapping[str, Any], flops: float) -> int:
    """The steps that take some number of FLOPs, as `step_flops` counts them.

    Args and Raises: as `steps_for_tokens`.
    """
    return _steps(experiment, flops / step_flops(experiment, keys))


def steps_for_seconds(
    experiment: str,
    keys: Mapping[str, Any],
    seconds: float,
    *,
    tokens_per_second: float,
) -> int:
    """The steps that take some time at a rate that the sweep file pins.

    Args and Raises: as `steps_for_tokens`. `launch.benchmark` measures the rate.
    """
    per_step = tokens_per_step(experiment, keys)
    return _steps(experiment, seconds * tokens_per_second / per_step)


def tokens_per_step(experiment: str, keys: Mapping[str, Any]) -> int:
    """Tokens of a batch, counted before corruption."""
    resolved = _load(experiment, keys)
    return resolved.train.batch * resolved.data.length


def step_flops(experiment: str, keys: Mapping[str, Any]) -> float:
    """FLOPs of a train step's matrix products, without rematerialisation.

    The vocabulary counts with `data.vocabulary_size`, which is what the config asks
    for: that of a model file is known only where the file is.
    """
    import jax

    from launch.hardware.placeholder_vocab import placeholder_vocab
    from research.run import flops
    from research.run.setup import build_program

    resolved = _load(
        experiment, {**keys, **ON_ONE_DEVICE, "data.vocabulary": "unigram"}
    )
    # Not an accelerator: a driver that opens it keeps it from its own trials.
    jax.config.update("jax_platforms", "cpu")
    devices = jax.devices("cpu")[:1]
    program = build_program(resolved, devices, vocab=placeholder_vocab(resolved))
    return flops.step_flops(program)[0]


def _load(experiment: str, keys: Mapping[str, Any]) -> Any:
    own = {key: value for key, value in keys.items() if not isinstance(value, tuple)}
    resolved = config.load_config(experiment, own)
    if resolved.train.phases:
        raise UserError(
            f"{experiment}: a budget is for runs whose steps are all alike; leave out "
            "train.phases"
        )
    return resolved


def _steps(experiment: str, steps: float) -> int:
    """The nearest number of steps.

    Raises:
      UserError: it is 0.
    """
    if round(steps) < 1:
        raise UserError(
            f"{experiment}: the budget is {steps:.2g} of one step; raise it"
        )
    return round(steps)
