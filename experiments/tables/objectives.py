"""Loss, cost and downstream accuracy of five objectives on the same text.

palimpsest table --table=experiments/tables/objectives.py --workdir=runs/mine
"""

import math

from experiments.sweeps import objectives as sweep
from launch.reports.tables import Column, Curve, Rows, Table
from launch.sweeps.trial import Trial

NAMES = {
    "lm": "lm (GPT)",
    "mlm": "mlm (BERT)",
    "plm": "plm (XLNet)",
    "dae": "dae (T5)",
    "electra": "electra",
}
FRESH = {
    "gpt": sweep.FRESH["lm"],
    "bert": sweep.FRESH["mlm"],
    "bart": sweep.FRESH["dae"],
}
"""The format of a classifier -> its row, if it does not start from a pretraining."""

BASELINES = {
    NAMES["lm"]: FRESH["gpt"],
    NAMES["mlm"]: FRESH["bert"],
    NAMES["plm"]: FRESH["bert"],
    NAMES["dae"]: FRESH["bart"],
    NAMES["electra"]: FRESH["bert"],
}
"""Family -> the same network without pretraining."""


def rows(trials: list[Trial]) -> Rows:
    """Each family's pretraining, and the classifiers that start from it."""
    found = {name: {"pretraining": [], "tuning": []} for name in NAMES.values()}
    found |= {name: {"tuning": []} for name in FRESH.values()}
    for trial in trials:
        origin = trial.parents.get("train.init_from")
        name = trial.config["objective.name"]
        if name == "sequence_classification":
            fresh = FRESH.get(trial.config["objective.format"])
            row = NAMES[origin.config["objective.name"]] if origin else fresh
            found[row]["tuning"].append(trial)
        else:
            found[NAMES[name]]["pretraining"].append(trial)
    return found


def perplexity(trial: Trial) -> float | None:
    """Of the predicted tokens; None for electra, whose discriminator predicts none."""
    if trial.config["objective.name"] == "electra":
        return None
    return math.exp(trial.result["metrics"]["valid/loss"])


def own_accuracy(trial: Trial) -> float:
    """Of predicted tokens; for electra of whether a token is the original."""
    electra = trial.config["objective.name"] == "electra"
    name = "discriminator_accuracy" if electra else "accuracy"
    return 100 * trial.result["metrics"][f"valid/{name}"]


def docstring_accuracy(trial: Trial) -> float:
    return 100 * trial.result["metrics"]["test/accuracy"]


def millions(name: str):
    return lambda trial: trial.result[name] / 1e6


TABLE = Table(
    title="Five pretraining objectives on the same text",
    row_header="objective",
    note=(
        "Pretraining is equal in text, order, tokens seen, width, layers and "
        "optimizer, and not in FLOPs, parameters and time, which are shown. Losses "
        "of different objectives are not comparable; docstrings are: the fraction of "
        "held-out ones whose module is predicted right after the same fine-tuning."
    ),
    rows=rows,
    columns=(
        Column("valid loss", "pretraining", "metrics.valid/loss", digits=3),
        Column("perplexity", "pretraining", perplexity, digits=1),
        Column("own accuracy, %", "pretraining", own_accuracy, digits=1),
        Column("parameters, M", "pretraining", millions("parameters")),
        Column("tokens seen, M", "pretraining", millions("tokens_seen")),
        Column("tokens scored, M", "pretraining", millions("tokens_scored")),
        Column("MFLOP a token", "pretraining", millions("flops_per_token"), digits=1),
        Column("seconds", "pretraining", "train_seconds", digits=0),
        Column("docstrings, %", "tuning", docstring_accuracy, 1, tested=True, most=100),
    ),
    baselines=BASELINES,
    curves=(
        Curve(
            "Own loss over tokens seen, in nats; each panel has its own scale",
            "pretraining",
            ("train/loss", "valid/loss"),
        ),
    ),
    bars=("docstrings, %",),
)
