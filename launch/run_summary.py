"""What a run that has ended took, and which commands use it."""

from collections.abc import Mapping
from typing import Any

import jax

from launch.measure.accelerators import find_chip
from research.objectives import Objective
from research.predictions import prediction_kind


def summary_lines(
    workdir: str, result: Mapping[str, Any], objective: Objective
) -> list[str]:
    """Lines for the user.

    Args:
      result: the content of result.json.
    """
    steps, tokens = result["steps"], result.get("tokens_seen", 0)
    seconds, total = result["train_seconds"], result["wall_seconds"]
    line = f"{workdir}: {steps:,} steps, {tokens:,.0f} tokens"
    if seconds > 0:
        line += f", {tokens / seconds:,.0f} tokens/s in steps"
        line += _utilisation(result["flops_to"][-1][1] / seconds)
    rest = total - result["compile_seconds"] - seconds
    if rest >= 0:  # of a run that was resumed, earlier starts are in the steps alone
        line += (
            f"; {total:.0f} s: {seconds:.0f} in steps, "
            f"{result['compile_seconds']:.0f} compiling, {rest:.0f} for data, "
            "evaluations and checkpoints"
        )
    return [line, f"next: {' | '.join(next_commands(workdir, objective))}"]


def _utilisation(flops_per_second: float) -> str:
    """The fraction of the devices' rate, if that is known (MFU)."""
    devices = jax.devices()
    chip = find_chip(devices[0].device_kind)
    if chip is None:
        return ""
    return f", MFU {100 * flops_per_second / (chip.flops * len(devices)):.1f} %"


def next_commands(workdir: str, objective: Objective) -> list[str]:
    """Commands that use a run, the most specific first."""
    use = f"--workdir={workdir}"
    found = []
    if objective.predicts and prediction_kind(objective.predicts).of_texts:
        example = prediction_kind(objective.predicts).example
        found += [f"palimpsest predict {use} {example}", f"palimpsest evaluate {use}"]
    else:
        if objective.fills_masks:
            found.append(f'palimpsest fill {use} "The [MASK] is old."')
        elif objective.writers:
            found.append(f'palimpsest generate {use} "The"')
        if objective.pattern == "self":  # vectors of words
            found.append(f"palimpsest vectors {use} --to=vectors.txt")
        else:
            found.append(
                f"palimpsest train --config=experiments/finetune.py "
                f"--config.train.init_from={workdir} ..."
            )
    return [*found, f"palimpsest export {use} --to=FOLDER"]
