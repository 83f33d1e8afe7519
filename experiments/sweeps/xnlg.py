"""XNLG's three stages (Chi et al. 2020), and in which language a tuned network writes.

    python -m experiments.studies.output_language texts --multi30k=data/multi30k \\
        --tatoeba=data/tatoeba --to=runs/captions
    palimpsest sweep --sweep=experiments/sweeps/xnlg.py \\
        --tasks=runs/captions/tasks.toml --workdir=runs/xnlg
    python -m experiments.studies.output_language write \\
        --sweep=runs/xnlg --texts=runs/captions
    python -m experiments.studies.output_language table \\
        runs/xnlg/written/*.jsonl

XLM on texts and pairs; a decoder for its encoder; a task in English that tunes the
encoder's layers alone, or all parameters. Beside them all parameters tuned without the
second stage, from XLM in both stacks, and without the first one: there the second stage
trains both stacks from initial parameters.

Departs: the scales but for "paper" have smaller networks and budgets; tasks are tuned
with a rate of 5e-4 that falls, in place of a constant 5e-6.
"""

from pathlib import Path
from typing import NamedTuple

from launch.sweeps import finetuning
from research.contract.errors import UserError

INIT_FROM = finetuning.INIT_FROM
TASK = "captions"
LANGUAGES = "1 0:1 0:2 0 2"
"""Of de.jsonl, en-de.tsv, en-fr.tsv, en.jsonl and fr.jsonl: English is 0."""
PAIRS = ("en-de.tsv", "en-fr.tsv")
ALL_BUT_LAYERS = (
    "token,encoder_embeddings,decoder,decoder_embeddings,decoder_token,output"
)

CPU = {
    "data.vocabulary_size": 4000,
    "model.layers": 4,
    "model.width": 128,
    "model.heads": 4,
    "model.feedforward": 512,
}
DEPTHS = {"model.layers": 3, "model.decoder_layers": 2}


class Budget(NamedTuple):
    """Steps of the three stages, rows of a batch, and seeds."""

    steps: tuple[int, int, int]
    batch: int
    seeds: int


BUDGETS = {
    "smoke": Budget((800, 2000, 200), 16, 3),
    "quick": Budget((4000, 6000, 600), 16, 5),
    "cpu": Budget((20_000, 30_000, 2000), 16, 5),
    "small": Budget((20_000, 30_000, 2000), 32, 5),
    "paper": Budget((1_000_000, 23_000, 100_000), 64, 3),
}


def sweep(scale, tasks):
    if TASK not in tasks:
        raise UserError(
            f"--tasks has no {TASK}: experiments/studies/output_language.py writes it"
        )
    task, budget = dict(tasks[TASK].keys), BUDGETS[scale]
    folder = Path(task["data.train"]).parent
    files = sorted([*PAIRS, "de.jsonl", "en.jsonl", "fr.jsonl"])
    texts = {"objective.languages": LANGUAGES}
    # A step of each language, and of each direction of a pair, as the command has it.
    rates = {str(folder / name): 1 + (name in PAIRS) for name in files}
    mixture = texts | {"data.mixture": rates}
    encoder, decoder = {"optimizer.frozen": ALL_BUT_LAYERS}, _depths(scale)
    decoder |= {"model.shared_embeddings": False}
    for seed in range(budget.seeds):
        stage_1, stage_2 = _stages(scale, seed, mixture)
        yield *stage_1, ("XLM", "pretraining")
        yield *stage_2, ("not tuned", "pretraining")
        tuning = task | _tuning(scale, seed)
        yield _tuned(tuning | encoder, stage_2, "encoder tuned")
        yield _tuned(tuning, stage_2, "all tuned")
    for seed in range(budget.seeds):
        stage_1, stage_2 = _stages(scale, seed, mixture)
        tuning = task | _tuning(scale, seed)
        yield _tuned(tuning | decoder, stage_1, "all tuned, without stage 2")
        alone = _without_first(stage_1, stage_2)
        yield *alone, ("not tuned, without stage 1", "pretraining")
        yield _tuned(tuning | encoder, alone, "encoder tuned, without stage 1")


def _stages(scale, seed, texts):
    """The first two stages of a seed."""
    size = "base" if scale == "paper" else "small"
    shared = texts | _training(scale, seed)
    first, second, _ = BUDGETS[scale].steps
    keys = {"train.steps": first, "model.token_types": 3, "data.length": 64}
    keys |= CPU | {"optimizer.learning_rate": 1e-3, "optimizer.warmup_steps": 200}
    if scale == "paper":  # the batch is XLM's
        keys = {"train.steps": first, "model.token_types": 3, "train.batch": 1024}
    stage_1 = f"experiments/xlm.py:{size}", shared | keys
    keys = {"train.steps": second, "model.shared_embeddings": False, INIT_FROM: stage_1}
    keys |= _depths(scale)
    if scale != "paper":
        keys |= {"optimizer.learning_rate": 1e-3, "optimizer.warmup_steps": 200}
        keys |= {"data.length": 32}
    return stage_1, (f"experiments/xnlg.py:{size}", shared | keys)


def _without_first(stage_1, stage_2):
    """The second stage from initial parameters, with the vocabulary of the first."""
    (_, of_first), (experiment, of_second) = stage_1, stage_2
    keys = {k: v for k, v in of_first.items() if k.startswith("model.")}
    keys |= {k: v for k, v in of_second.items() if k != INIT_FROM}
    return experiment, keys | {"data.vocabulary": stage_1, "optimizer.frozen": ""}


def _depths(scale):
    return (
        {"model.layers": 10, "model.decoder_layers": 6} if scale == "paper" else DEPTHS
    )


def _training(scale, seed):
    budget = BUDGETS[scale]
    keys = {"seed": seed, "train.batch": budget.batch, "train.eval_every": 0}
    return keys | {"train.log_every": 100, "data.held_out": 0.005}


def _tuning(scale, seed):
    steps = BUDGETS[scale].steps[2]
    keys = _training(scale, seed) | {"train.steps": steps}
    del keys["data.held_out"]
    sizes = (102, 80) if scale == "paper" else (32, 40)
    keys |= dict(zip(("data.length", "objective.target_length"), sizes, strict=True))
    keys["objective.beams"] = 1
    keys |= {"objective.name": "sequence_to_sequence", "objective.format": "xlm"}
    return keys | {"objective.languages": "0", "optimizer.learning_rate": 5e-4}


def _tuned(keys, start, row):
    return "experiments/finetune.py", keys | {INIT_FROM: start}, (row, TASK)
