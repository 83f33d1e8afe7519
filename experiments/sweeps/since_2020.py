"""Objectives since 2020 beside LM, masked LM and permuted LM, at equal FLOPs.

    palimpsest sweep --sweep=experiments/sweeps/since_2020.py --scale=quick \\
        --tasks=tasks.toml --workdir=runs/since \\
        --config.data.corpus='corpus/*.txt'
    palimpsest score --workdir=runs/since --task=sentences --data=held_out.txt
    palimpsest score --workdir=runs/since --task=blimp --data='blimp/*'
    palimpsest report --table=experiments/tables/since_2020.toml --workdir=runs/since

Question: which objective learns most of one text with the computation that LM takes for
twice the scale's steps, at quick for 4.1 million tokens? All read the same text in rows
of the same length, with one vocabulary, number of layers, width and optimizer. GPT-BERT
and DeBERTaV3 have their own networks: gates and mixtures of layers, attention with the
states' projections of distances.

Departs: one optimizer for all (GPT-BERT's is LAMB with an average of parameters), no
dropout, rows of one length, 40 % masks in masked LM.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from experiments.sweeps.objectives import SHARED
from launch.sweeps import budgets, finetuning
from launch.sweeps.scales import SCALES
from launch.sweeps.tasks import Task

BLOCKS_OF_4 = {"objective.block_size": 4, "objective.min_t": 0.45}
BLOCKS_OF_4 |= {"objective.max_t": 0.95}
NO_DROPOUT = {"model.position_dropout": 0.0, "model.readout_dropout": 0.0}
OWN_NETWORK = ("GPT-BERT", "DeBERTaV3")
ARMS = {
    "LM": ("experiments/lm.py", {}),
    "multi-token": ("experiments/mtp.py", {}),
    "masked LM": ("experiments/mlm.py", {"objective.rate": 0.4}),
    "MDLM": ("experiments/mdlm.py", {}),
    "block diffusion, 16": ("experiments/bd3lm.py", {}),
    "block diffusion, 4": ("experiments/bd3lm.py", BLOCKS_OF_4),
    "permuted LM": ("experiments/plm.py", {}),
    "GPT-BERT": ("experiments/gpt_bert.py", NO_DROPOUT),
    "DeBERTaV3": ("experiments/deberta_v3.py", {}),
}
SEEDS = 3


def sweep(
    scale: str, tasks: Mapping[str, Task] | None = None, *, multiple: float = 2
) -> Iterator[tuple]:
    """The trials, each with this multiple of LM's FLOPs for the scale's steps."""
    chosen = finetuning.own_tasks("since_2020", tasks, scale) if tasks else {}
    shape, budget = SCALES[scale].shape, SCALES[scale].pretraining
    reference = "experiments/mlm.py", SHARED | shape | budget | {"train.eval_every": 0}
    total = (
        multiple
        * budget["train.steps"]
        * budgets.step_flops("experiments/lm.py", reference[1])
    )

    def keys(row: str, base: Mapping[str, Any]) -> dict[str, Any]:
        experiment, arm = ARMS[row]
        own = _like(reference, (experiment, dict(base)), row)
        # FLOPs do not depend on the optimizer, whose name and keys are not of one arm.
        sized = {**base, **arm, **own}
        sized = {k: v for k, v in sized.items() if not k.startswith("optimizer.")}
        steps = budgets.steps_for_flops(experiment, sized, total)
        own |= {"train.steps": steps, "train.checkpoint_every": steps}
        if row == "GPT-BERT":  # whose rate of masks falls over the run
            parts = base["objective.parts"]
            masked = parts["masked"] | {"rate_steps": steps}
            own["objective.parts"] = parts | {"masked": masked}
        return own

    for seed in range(SEEDS):
        for row, arm in ARMS.items():
            start = finetuning.pretraining(
                row, arm, scale, seed=seed, keys=keys, size=""
            )
            yield from finetuning.with_baseline(row, start, chosen, scale, {})


def _like(reference: finetuning.Arm, arm: finetuning.Arm, row: str) -> dict[str, Any]:
    """Keys that make a row's text, optimizer and, without OWN_NETWORK, network equal.

    Args:
      arm: the row's experiment, with the keys of the scale.
    """
    found = finetuning.like(reference, finetuning.flat_config(arm))
    own = row in OWN_NETWORK
    return {k: v for k, v in found.items() if not (own and k.startswith("model."))}
