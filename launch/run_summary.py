"""The summary of a finished run: what it cost, and which commands use it."""

import sys
from collections.abc import Mapping
from typing import Any

import jax
from etils import epath

from launch.cli import is_model
from launch.measure.accelerators import find_chip
from research.config.config import Config
from research.evaluation.learning import learning_warnings, writing_note
from research.files.existence import exists
from research.generation.generate import own_method
from research.metrics import notes_lines, ranges_line
from research.objectives import Objective
from research.predictions import Prediction, prediction_kind
from research.record.workdir import read_result


def print_summary(workdir: str, result: Mapping[str, Any], config: Config) -> None:
    """Prints the summary of a finished run to stderr.

    Args:
      result: the content of result.json.
    """
    fields = [name for name in config.data.fields.split(",") if name]
    entropy = result["token_entropy"]
    warnings = learning_warnings(
        result["metrics"], config.objective, config.data.eval_split, entropy
    )
    for line in [
        ranges_line(result["ranges"]),
        *notes_lines(result["notes"]),
        *(f"warning: {line}" for line in warnings),
        *summary_lines(
            workdir,
            result,
            config.objective,
            len(fields),
            draws=bool(writing_note(result, config.objective)),
        ),
    ]:
        if line:
            print(line, file=sys.stderr)


def summary_lines(
    workdir: str,
    result: Mapping[str, Any],
    objective: Objective,
    num_texts: int = 1,
    *,
    draws: bool = False,
) -> list[str]:
    """Lines for the user.

    Args:
      result: the content of result.json.
      num_texts: texts per example (data.fields).
      draws: it is to write by a sampler that draws, if it can.
    """
    steps, tokens = result["steps"], result.get("tokens_seen", 0)
    seconds, total = result["train_seconds"], result["wall_seconds"]
    line = f"{workdir}: {steps:,} steps, {tokens:,.0f} tokens"
    if seconds > 0:
        line += f", {tokens / seconds:,.0f} tokens/s in steps"
        line += _utilisation(result["flops_to"][-1][1] / seconds)
    rest = total - result["compile_seconds"] - seconds
    if rest >= 0:  # in a resumed run, earlier starts count only in the steps
        line += (
            f"; {total:.0f} s: {seconds:.0f} in steps, "
            f"{result['compile_seconds']:.0f} compiling, {rest:.0f} for data, "
            "evaluations and checkpoints"
        )
    commands = next_commands(workdir, objective, num_texts, draws)
    return [line, f"next: {' | '.join(commands)}"]


def print_writing_note(workdir: str, objective: Objective, advice: str = "") -> None:
    """Prints `writing_note` of a finished run, and what to try.

    Args:
      workdir: of a run, or hf:DIR, about which nothing is known.
    """
    if is_model(workdir) or not exists(epath.Path(workdir) / "result.json"):
        return
    if note := writing_note(read_result(epath.Path(workdir)), objective):
        print(f"note: {note}{advice}", file=sys.stderr)


def _utilisation(flops_per_second: float) -> str:
    """The fraction of the devices' peak rate (MFU), if that is known."""
    devices = jax.devices()
    chip = find_chip(devices[0].device_kind)
    if chip is None:
        return ""
    return f", MFU {100 * flops_per_second / (chip.flops * len(devices)):.1f} %"


def next_commands(
    workdir: str, objective: Objective, num_texts: int, draws: bool
) -> list[str]:
    """Commands that use a run, the most specific first."""
    use = f"--workdir={workdir}"
    found = []
    if objective.predicts and prediction_kind(objective.predicts).of_texts:
        example = prediction_kind(objective.predicts).example
        if num_texts == 2 and example == Prediction.example:
            example = '"a text" "another"'
        found += [f"palimpsest predict {use} {example}", f"palimpsest evaluate {use}"]
    elif hasattr(objective, "images"):
        found.append(f"palimpsest show {use} --pictures=... --data=...")
        match = getattr(objective, "asks_match", False)
        if match or hasattr(objective, "picture_vectors"):
            found.append(f"palimpsest score {use} --task=retrieval --data=...")
        return found  # Hugging Face has none of these networks
    else:
        if objective.fills_masks:
            found.append(f'palimpsest fill {use} "The [MASK] is old."')
        elif objective.writers:
            method = own_method(objective, draws=draws)
            flag = f" --method={method}" if method != own_method(objective) else ""
            found.append(f'palimpsest generate {use} "The"{flag}')
        if objective.pattern == "self":  # vectors of words
            found.append(f"palimpsest vectors {use} --to=vectors.txt")
        else:
            found.append(
                f"palimpsest train --config=experiments/finetune.py "
                f"--config.train.init_from={workdir} ..."
            )
    return [*found, f"palimpsest export {use} --to=FOLDER (published networks)"]
