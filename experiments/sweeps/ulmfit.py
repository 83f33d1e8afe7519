"""ULMFiT's three stages (Howard and Ruder 2018), and what each of the first two brings.

    palimpsest sweep --sweep=experiments/sweeps/ulmfit.py --tasks=tasks.toml \\
        --config.data.corpus='wiki/*.jsonl.gz' --workdir=runs/ulmfit

A language model of the corpus; the same, tuned to the texts that each task of --tasks
is trained on; a classifier that starts from the second, from the first, or from initial
parameters with the same vocabulary.

The last learns in all layers from the first step, at one rate: layers that know nothing
and wait for their turn would be no fair baseline.

Departs: words that the corpus lacks are unknown in all stages; a softmax over all words
where the first stage samples 15,000; no L2 penalty; the scales but for "paper" have
smaller networks and fixed numbers of steps. "quick" and "cpu" are for some four
minutes of a core a seed: two layers, and less than one pass of the text, which
underfits, so that a language model drops and penalises nothing and its rate is higher
and falls linearly. Its token table begins in a wider range and dense layers by fan-in,
since narrow layers otherwise stay at the entropy of frequencies for most of the steps.
All their classifiers learn in all layers from the first step, at one rate, by a head of
one layer: at the released rates, layer after layer, those of the first two rows had
learnt nothing after 176 steps.
"""

from collections.abc import Mapping
from typing import NamedTuple

from experiments import ulmfit
from launch.sweeps import finetuning

INIT_FROM = finetuning.INIT_FROM

CPU = {"data.vocabulary_size": 8_000, "model.width": 64, "model.inner_width": 128}
QUICK = {"data.vocabulary_size": 4_000, "model.width": 48, "model.inner_width": 96}
QUICK |= {"model.layers": 2, "model.table_range": 0.5, "model.init": "xlm"}
SHAPES = {
    "smoke": CPU,
    "quick": QUICK,
    "cpu": QUICK,
    "small": CPU | {"data.vocabulary_size": 30_003, "model.inner_width": 400},
    "paper": CPU | {"data.vocabulary_size": 30_003, "model.inner_width": 1150},
}
SHAPES["small"]["model.width"] = 200
SHAPES["paper"]["model.width"] = 400

ADAM = {"optimizer.name": "adam", "optimizer.beta1": 0.8, "optimizer.beta2": 0.99}
ADAM |= {"optimizer.average_from": 1.0, "optimizer.clip_norm": 0.3}
"""The released code's (imdb_scripts), in place of AWD-LSTM's SGD."""
DROPOUT = {"model.embedding_dropout": 0.25, "model.output_dropout": 0.1}
DROPOUT |= {"model.weight_dropout": 0.2, "model.word_dropout": 0.02}
DROPOUT |= {"model.hidden_dropout": 0.15}
"""Of the second stage (finetune_lm.py); the first has half of each (pretrain_lm.py)."""
GENERAL_RATES, TUNED_RATES = [1, 1 / 6, 1 / 3, 1, 1], [1 / 2, 1 / 6, 1 / 3, 1, 1 / 2]
"""Of the table, which is the readout, too, of three layers, and of the bias."""
UNDERFITTING = dict.fromkeys(DROPOUT, 0.0)
UNDERFITTING |= {"objective.activation_penalty": 0.0, "objective.temporal_penalty": 0.0}
SHORT_GENERAL = {"optimizer.learning_rate": 5e-3, "optimizer.layer_rates": []}
SHORT_GENERAL |= {"optimizer.warmup": "linear", "optimizer.warmup_steps": 0}
SHORT_GENERAL |= {"optimizer.final_fraction": 0.0}
SHORT_RATE = 5e-3
SHORT_TUNING = dict.fromkeys(DROPOUT, 0.1)
SHORT_TUNING |= {"model.word_dropout": 0.01, "optimizer.layer_rates": []}
SHORT_TUNING |= {"objective.head": "linear", "objective.head_width": 0}
SHORT_TUNING["optimizer.learning_rate"] = SHORT_RATE
SHORT = UNDERFITTING, SHORT_GENERAL, SHORT_TUNING, SHORT_RATE


class Budget(NamedTuple):
    """Steps of the three stages, rows of a batch, and what a classifier reads."""

    steps: tuple[int, int, int]
    batch: int
    length: int  # tokens of a text, of whose end they are
    passes: int  # over which the layers of a classifier begin to learn, one each; 0:
    # all begin at once
    seeds: int
    language_model: Mapping = {}  # further keys of the first two stages
    general: Mapping = {}  # of the first
    classifier: Mapping = {}  # and of the last
    alone_rate: float = 0.01  # of a classifier without pretraining


BUDGETS = {
    "smoke": Budget((1500, 300, 300), 16, 128, 6, 3),
    "quick": Budget((600, 200, 264), 32, 128, 0, 5, *SHORT),
    "cpu": Budget((6_000, 2_000, 2_640), 32, 128, 0, 5, *SHORT),
    "small": Budget((20_000, 4_000, 2_000), 32, 400, 10, 5),
    "paper": Budget((322_600, 19_600, 19_550), 64, 512, 50, 5),
}
"""At paper 14 passes of WikiText-103 (103 million tokens) and 15 of IMDb's 25,000 texts
(5.85 million), in batches of 64 rows of 70 tokens, and 50 of its labels."""


TUNED, GENERAL = "three stages", "without the second stage"


def sweep(scale, tasks):
    budget, chosen = BUDGETS[scale], finetuning.own_tasks("ulmfit", tasks)
    general, tuned, _ = budget.steps
    size = "base" if scale == "paper" else "small"
    language_model = f"experiments/awd_lstm.py:{size}"
    classifier, classifiers = "experiments/ulmfit.py", []
    for seed in range(budget.seeds):
        shared = {"seed": seed, "train.eval_every": 0}
        keys = _stage(general, budget) | _rates(general, 1e-3, GENERAL_RATES, scale)
        keys |= {key: rate / 2 for key, rate in DROPOUT.items()}
        keys |= {**budget.language_model, **budget.general} | SHAPES[scale] | shared
        stage_1 = language_model, keys
        for name, task in chosen.items():
            texts = {k: v for k, v in task.keys.items() if k.startswith("data.")}
            texts.pop("data.label", None)
            keys = _stage(tuned, budget) | _rates(tuned, 0.004, TUNED_RATES, scale)
            keys |= DROPOUT | {**budget.language_model} | shared | texts
            stage_2 = language_model, keys | {INIT_FROM: stage_1}
            yield *stage_2, (TUNED, "pretraining")
            keys = _classifier(budget) | SHAPES[scale] | {**budget.classifier}
            keys |= dict(task.keys) | shared
            alone = keys | {"data.vocabulary": stage_1}
            alone |= {"optimizer.unfreeze_every": 0, "optimizer.layer_rates": []}
            alone["optimizer.learning_rate"] = budget.alone_rate
            rows = {TUNED: keys | {INIT_FROM: stage_2}}
            rows |= {GENERAL: keys | {INIT_FROM: stage_1}}
            rows |= {finetuning.NO_PRETRAINING: alone}
            classifiers += [(classifier, k, (row, name)) for row, k in rows.items()]
    yield from classifiers


def _stage(steps: int, budget: Budget) -> dict:
    keys = {"train.steps": steps, "train.batch": budget.batch, "data.length": 70}
    return keys | {"train.log_every": max(10, steps // 20)} | ADAM


def _rates(steps: int, peak: float, factors: list[float], scale: str) -> dict:
    """Slanted triangular rates, with the factors of the network's layers."""
    layers = SHAPES[scale].get("model.layers", 3)
    keys = ulmfit.slanted(steps) | {"learning_rate": peak}
    keys["layer_rates"] = [factors[0], *factors[-layers - 1 :]]
    return {f"optimizer.{key}": value for key, value in keys.items()}


def _classifier(budget: Budget) -> dict:
    steps = budget.steps[2]
    keys = {"train.steps": steps, "train.batch": budget.batch}
    keys |= {"data.length": budget.length, "objective.tail": budget.length}
    keys["optimizer.unfreeze_every"] = steps // budget.passes if budget.passes else 0
    keys |= {"optimizer.warmup_steps": round(ulmfit.CUT * steps)}
    return keys | {"train.log_every": max(10, steps // 20)}
