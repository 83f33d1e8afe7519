"""Budgets of a sweep: the number of steps for equal tokens, FLOPs or seconds.

A sweep states one budget, and each trial's `train.steps` depends only on its config, so
the ids of trials do not depend on the machine: FLOPs are counted in the step's jaxpr,
and seconds follow from rates that the sweep file gives.
"""

import math
from collections.abc import Mapping
from typing import Any

from launch import config
from launch.sweeps.shared_keys import with_shared
from research.config.config import Config
from research.contract.errors import UserError

ON_ONE_DEVICE = {"mesh.data": 1, "mesh.fsdp": 1, "mesh.tensor": 1}
"""Mesh on which FLOPs are counted; the FLOPs of a batch do not depend on it."""


def steps_for_tokens(experiment: str, keys: Mapping[str, Any], tokens: float) -> int:
    """The number of steps for a number of tokens, counted by `tokens_per_step`.

    Args:
      experiment, keys: as a sweep yields them; keys whose value is another trial's
        folder are ignored.

    Raises:
      UserError: the config is wrong or has phases, or the budget is not a finite number
        or below one step.
    """
    return _steps(experiment, tokens, tokens_per_step(experiment, keys))


def steps_for_flops(experiment: str, keys: Mapping[str, Any], flops: float) -> int:
    """The number of steps for a number of FLOPs, counted by `step_flops`.

    Args and Raises: as in `steps_for_tokens`; also UserError if a step has no matrix
    products, e.g. GloVe's.
    """
    per_step = step_flops(experiment, keys)
    if not per_step:
        raise UserError(
            f"{experiment}: a step must have matrix products for a budget of FLOPs; "
            "this one has none; use a budget of tokens or seconds"
        )
    return _steps(experiment, flops, per_step)


def steps_for_seconds(
    experiment: str,
    keys: Mapping[str, Any],
    seconds: float,
    *,
    tokens_per_second: float,
) -> int:
    """The number of steps for a time, at a rate given by the sweep file.

    Args and Raises: as in `steps_for_tokens`. `palimpsest benchmark` measures the rate.
    """
    resolved = _load(experiment, keys)
    per_step = resolved.train.batch * resolved.data.length
    return _steps(experiment, seconds * tokens_per_second, per_step)


def tokens_per_step(experiment: str, keys: Mapping[str, Any]) -> float:
    """Tokens of a batch: the positions of its rows, including special tokens.

    If noise shortens the text, these are the tokens of the text that a row reads.
    """
    resolved = _load(experiment, keys)
    length = resolved.data.length
    read = resolved.objective.tokens_read(length)
    return resolved.train.batch * max(length, read)


def step_flops(experiment: str, keys: Mapping[str, Any]) -> float:
    """FLOPs of a train step's matrix products, without rematerialisation.

    The vocabulary is a placeholder with `data.vocabulary_size` entries, since a model
    file need not be present. Its type is that of the experiment's vocabulary.
    """
    import jax

    from launch.measure.placeholder_vocab import placeholder_vocab
    from research.data.tokenize.train_tokenizer import TRAINED_TYPES, WORD_TYPES
    from research.program import flops
    from research.program.setup import build_program

    vocabulary = with_shared(keys).get("data.vocabulary")
    if vocabulary not in TRAINED_TYPES:  # a file, another trial's, or none
        vocabulary = config.load_config(experiment).data.vocabulary
    has_words = vocabulary in WORD_TYPES
    made_up = {"data.vocabulary": vocabulary if has_words else "unigram"}
    resolved = _load(experiment, {**keys, **ON_ONE_DEVICE, **made_up})
    # No accelerator: a driver that opens one would block it for its trials.
    jax.config.update("jax_platforms", "cpu")
    devices = jax.devices("cpu")[:1]
    program = build_program(resolved, devices, vocab=placeholder_vocab(resolved))
    return flops.step_flops(program)[0]


def _load(experiment: str, keys: Mapping[str, Any]) -> Config:
    resolved = config.load_config(experiment, with_shared(keys))
    if resolved.train.phases:
        raise UserError(
            f"{experiment}: a budget needs equal steps; leave out train.phases"
        )
    return resolved


def _steps(experiment: str, budget: float, per_step: float) -> int:
    """The nearest number of steps.

    Raises:
      UserError: it is 0, or the budget is not a finite number.
    """
    if not math.isfinite(budget):
        raise UserError(f"{experiment}: the budget must be finite; got {budget}")
    steps = budget / per_step
    if round(steps) < 1:
        raise UserError(
            f"{experiment}: the budget is {steps:.2g} of one step; raise it"
        )
    return round(steps)
