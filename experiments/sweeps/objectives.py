"""Five pretraining objectives on the same text, compared by fine-tuned classifiers.

    palimpsest sweep --sweep=experiments/sweeps/objectives.py --workdir=runs/mine

Hypothesis: at equal text, order, tokens, width and optimizer, pretraining improves the
accuracy of predicting which module a held-out docstring documents over that of the same
network without pretraining, and the more so the sooner an objective's loss falls below
the entropy of token frequencies.

Expected at smoke, accuracy in per cent over three seeds: lm 60 (not pretrained 49), mlm
59 (52), plm 53 (52), dae 26 (50), electra 32 (52). After 0.8 M tokens T5's decoder
hardly reads its encoder (the input of another row costs it 0.06 nats of 4.33), and the
states that ELECTRA's detector gives to two sentences have a cosine of 0.99.
"""

import math
from collections.abc import Iterator
from typing import Any

from launch.sweeps import budgets
from launch.sweeps.scales import SCALES, Scale
from research import objectives

FAMILIES = ("lm", "mlm", "plm", "dae", "electra")
TUNING = {
    "lm": {"objective.format": "gpt"},
    "plm": {"objective.format": "xlnet"},
    "dae": {"objective.format": "bart"},  # with `pool` "mean": its encoder
    "electra": {"train.init_scope": "discriminator"},
}
"""How the classifier uses a family's parameters; the others: as an encoder."""

SHARED = {
    "data.vocabulary": "unigram",
    "model.token_types": 0,
    "model.position": "rotary",
    "model.norm": "layernorm",
    "model.norm_placement": "pre",
    "model.norm_epsilon": 1e-6,
    "model.activation": "gelu",
    "model.bias": True,
    "model.init": "normal",
    "model.dropout": 0.0,
    "data.normalizer": "none",
    "optimizer.beta2": 0.98,
    "optimizer.bias_correction": True,
}
"""One Transformer for all instead of each paper's: only the objective differs."""

FAMILY_KEYS = {
    "electra": {"objective.format": "stream", "objective.positions": "distinct"}
}
"""Keys of a family's experiment that would change the text: all read the same."""

FRESH = {
    "lm": "no pretraining, left to right",
    "mlm": "no pretraining, both directions",
    "dae": "no pretraining, encoder of two stacks",
}
"""Family -> the row of its network without pretraining; others have mlm's network."""

_SMOKE = SCALES["smoke"]
_SMALL_BATCHES = {
    "train.batch": 8,
    "train.steps": 1500,
    "train.eval_every": 500,
    "train.checkpoint_every": 500,
    "optimizer.warmup_steps": 100,
}
OWN_SCALES = SCALES | {
    "smoke": _SMOKE._replace(
        pretraining=_SMOKE.pretraining | _SMALL_BATCHES,
        tuning=_SMOKE.tuning | {"data.length": 32},
        pretraining_seeds=3,
        mask_rate=0.4,
    )
}
"""The scales of this sweep: at smoke three seeds in the minutes that `make compare` may
take. Batches of 8 learn more of as many tokens than those of 32."""


def sweep(scale: str, budget: str = "tokens") -> Iterator[tuple[str, dict[str, Any]]]:
    """The trials of a scale.

    Args:
      budget: what the families' pretraining is equal in: "tokens", or "flops", then
        those that `lm` takes for the scale's steps.
    """
    size = OWN_SCALES[scale]
    total = size.pretraining["train.steps"]
    if budget == "flops":
        total *= budgets.step_flops(*pretraining("lm", size))
    pretrained = {}
    for family in FAMILIES:
        experiment, keys = pretraining(family, size)
        if budget == "flops":
            steps = budgets.steps_for_flops(experiment, keys, total)
            keys |= {"train.steps": steps}
        for seed in range(size.pretraining_seeds):
            pretrained[family, seed] = experiment, keys | {"seed": seed}
            yield pretrained[family, seed]
    tuning = SHARED | size.shape | size.tuning
    tuning |= {"data.corpus": "docstrings", "data.eval_split": "test"}
    tuning |= {"objective.pool": "mean"}  # no family trains a state for the whole text
    tuning |= {"optimizer.decay_from": "warmup"}
    for seed in range(size.num_seeds):
        for family in FAMILIES:
            origin = pretrained[family, seed % size.pretraining_seeds]
            keys = tuning | {"seed": seed, "data.vocabulary": origin}
            keys |= TUNING.get(family, {})
            if family in FRESH:
                yield "experiments/finetune.py", keys
            yield "experiments/finetune.py", keys | {"train.init_from": origin}


def pretraining(family: str, size: Scale) -> tuple[str, dict[str, Any]]:
    """The experiment of a family and its keys, but for the seed."""
    keys = SHARED | size.shape | size.pretraining | FAMILY_KEYS.get(family, {})
    if size.mask_rate:
        keys |= _hidden(family, size.mask_rate)
    return f"experiments/{family}.py", keys | {"data.stride": stride(size)}


def _hidden(family: str, rate: float) -> dict[str, Any]:
    """Keys that hide a fraction of the tokens; of permuted LM one in a whole number.

    With 40 % a family leaves the entropy of frequencies sooner than with 15 %, but T5.
    """
    if family == "plm":
        return {"objective.tokens_per_target": math.ceil(1 / rate)}
    return {"objective.rate": rate} if family in ("mlm", "electra") else {}


def stride(size: Scale) -> int:
    """The smallest raw length, so that all families read the same tokens."""
    length = size.shape["data.length"]
    return min(
        objectives.make_objective(name).text_spec(length).length for name in FAMILIES
    )
