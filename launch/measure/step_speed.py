"""Speed of train steps on this machine's devices, from random tokens."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from launch.measure import accelerators
from launch.measure.attention_speed import FLOPS_PER_PAIR
from launch.measure.placeholder_vocab import placeholder_vocab
from launch.measure.random_batch import random_batch
from launch.measure.timing import DOES_NOT_FIT, Job, best_seconds, is_out_of_memory
from research.config.config import Config
from research.distributed import sharding
from research.objectives import Objective
from research.program.compiled_phases import compile_step
from research.program.flops import Cost
from research.program.setup import build_program, initial_state


def step_figures(cost: Cost, seconds: float, tokens: int) -> dict:
    """Rates of a step on this machine's devices.

    Args:
      cost: FLOPs and peak bytes of the step.
      seconds: the time of one step.
      tokens: the tokens of one step.
    """
    devices = jax.devices()
    device_kind, flops_per_second = devices[0].device_kind, cost.flops / seconds
    chip = accelerators.find_chip(device_kind)
    peak = chip.flops * len(devices) if chip else None
    return {
        "device": device_kind,
        "num_devices": len(devices),
        "step_seconds": seconds,
        "tokens_per_second": tokens / seconds,
        "flops_per_token": cost.flops / tokens,
        "flops_per_second": flops_per_second,
        "mfu": flops_per_second / peak if peak else None,
        "peak_bytes": cost.peak_bytes,
    }


def step_job(
    facts: dict[str, Any], make_config: Callable[[], Any], states: dict[str, Any]
) -> Job:
    """Times the step of a config; rows are halved until it fits the device.

    Args:
      facts: what is recorded of it. Equal ones under "name" have the same parameters.
      make_config: what it raises as a UserError is why the step is not measured.
      states: name -> the state that the last step of that network returned, for one
        network at most, to save memory.
    """
    return Job(facts, partial(_prepare, facts["name"], make_config, states))


def _prepare(
    name: str, make_config: Callable[[], Any], states: dict[str, Any]
) -> Callable[[], dict[str, Any]]:
    fitting = _compile_what_fits(make_config())
    if fitting is None:
        return lambda: {"not_run": DOES_NOT_FIT}
    config, program, vocab, step, cost = fitting
    rows, length = config.train.batch, config.data.length

    def measure() -> dict[str, Any]:
        batch = random_batch(program.objective, vocab, rows, length)
        batch = sharding.to_devices(batch, program.abstract_batch)
        batch |= program.constants.zeros
        state = states.pop(name, None)
        states.clear()
        with sharding.context(program.mesh):
            held = [initial_state(program, 0) if state is None else state]

            def call():
                held[0] = step(held[0], batch)
                return held[0]

            figures = step_figures(cost, best_seconds(call), rows * length)
        states[name] = held[0]
        halved = causal_flops(config, program.objective) / 2
        return {"rows": rows, **figures, "flops_hidden_by_causal_masks": halved}

    return measure


def _compile_what_fits(config: Config) -> tuple | None:
    """The config with as many rows as fit, and its program; None if no row fits."""
    limit = device_memory()
    least_batch = jax.device_count() * config.train.accumulate
    rows = max(1, config.train.batch // least_batch)  # of a device's micro-batch
    vocab = placeholder_vocab(config)
    while rows:
        config = config.with_values({"train.batch": rows * least_batch})
        program = build_program(config, vocab=vocab)
        try:
            step, cost = compile_step(program)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
        else:
            if limit is None or cost.peak_bytes <= limit:
                return config, program, vocab, step, cost
        rows //= 2
    return None


def device_memory() -> int | None:
    """Bytes of a device's memory that JAX may use; None if unknown."""
    device = jax.devices()[0]
    chip = accelerators.find_chip(device.device_kind)
    stats = device.memory_stats() or {}
    return stats.get("bytes_limit", chip.hbm if chip else None)


def causal_flops(config: Config, objective: Objective) -> float:
    """FLOPs of a step's causal self-attention, of all pairs, forward and backward.

    Attention of a decoder is causal; of other stacks, if the objective's pattern is.
    """
    specs, model = objective.batch_spec(config.data.length), config.model
    if not hasattr(model, "heads"):  # a network without attention
        return 0.0
    pairs = 0
    if "decoder_token" in specs:
        layers = model.decoder_layers or model.layers
        pairs = layers * specs["decoder_token"].shape[0] ** 2
    elif objective.pattern == "causal":
        pairs = model.layers * specs["token"].shape[0] ** 2
    width = model.heads * (model.head_width or model.width // model.heads)
    return FLOPS_PER_PAIR * config.train.batch * width * pairs
