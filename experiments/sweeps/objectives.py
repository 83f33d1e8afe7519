"""Five pretraining objectives on the same text, compared by fine-tuned classifiers.

    python -m launch.sweep --sweep=experiments/sweeps/objectives.py --workdir=runs/mine

Hypothesis: at equal text, order, tokens, width and optimizer, pretraining improves the
accuracy of predicting which module a held-out docstring documents, and the more so the
sooner an objective's loss falls below the entropy of token frequencies.

Expected at smoke, accuracy in per cent over three seeds: lm 60, mlm 59, plm 54, dae 39,
no pretraining 52, electra 30 (its discriminator has hardly learnt after 1.2 M tokens).
"""

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
"""Keys of a family's experiment that would change the text: all read the same, and hide
as many tokens of it."""


_SMOKE = SCALES["smoke"]
_FEWER_STEPS = {
    "train.steps": 600,
    "train.eval_every": 120,
    "train.checkpoint_every": 120,
    "optimizer.warmup_steps": 30,
}
OWN_SCALES = SCALES | {
    "smoke": _SMOKE._replace(
        pretraining=_SMOKE.pretraining | _FEWER_STEPS,
        tuning=_SMOKE.tuning | {"data.length": 32},
    )
}
"""Those of this sweep: less at smoke than for published tables, as `make compare` is
to take minutes."""


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
        start = seed % size.pretraining_seeds
        keys = tuning | {"seed": seed, "data.vocabulary": pretrained["lm", start]}
        yield "experiments/finetune.py", keys
        for family in FAMILIES:
            origin = pretrained[family, start]
            own = {"train.init_from": origin, "data.vocabulary": origin}
            yield "experiments/finetune.py", keys | own | TUNING.get(family, {})


def pretraining(family: str, size: Scale) -> tuple[str, dict[str, Any]]:
    """The experiment of a family and its keys, but for the seed."""
    keys = SHARED | size.shape | size.pretraining | FAMILY_KEYS.get(family, {})
    return f"experiments/{family}.py", keys | {"data.stride": _stride(size)}


def _stride(size: Scale) -> int:
    """The smallest raw length, so that all families read the same tokens."""
    length = size.shape["data.length"]
    return min(
        objectives.make_objective(name).text_spec(length).length for name in FAMILIES
    )
