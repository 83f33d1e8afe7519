"""ERNIE 1.0 (Sun et al. 2019): masks characters, then phrases, then entities.

    palimpsest train --config=experiments/ernie.py:tiny --workdir=runs/ernie \
        --config.data.corpus=zh.jsonl --config.data.lexicon=phrases.tsv

Each unit is masked with probability 0.15, in three stages of a third of the steps each.
Units are single tokens; then phrases and words outside phrases; then the same of
entities.
Phrases and entities are those of a lexicon (lines of an entry, a tab, and "phrase" or
"entity"). Next sentence prediction is part of all stages, as in the released code.

Look at: train/mlm at the two changes: each stage is harder than the one before. The
evaluation uses the last stage. Stages change at a third and two thirds of the size's
own train.steps: with other steps, give objective.parts, too (`stages`).

The network is that of the released config/ernie_config.json (ReLU) and of Paddle's
layer norm.

The paper names no optimizer; the released code's is used, with 8,192 tokens on each
of 8 devices. Base has the length of the released data, 128 (README).

Departs (docs/fidelity.md has the values): phrases and entities; stages; pairs of two
documents; tasks that are left out; padding among random tokens.
"""

from typing import Any

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")
PAIR = {"format": "segment_pair", "sentence_task": "nsp", "unit": "lexicon"}
PAIR |= {"random_tokens": "all", "rounding": "independent"}


def stages(steps: int) -> dict[str, dict[str, Any]]:
    """objective.parts whose stages are a third of these steps each."""
    first, last = steps // 3, 2 * steps // 3
    rates = {
        "token": [[0, 1], [first, 0]],
        "phrase": [[0, 0], [first, 1], [last, 0]],
        "entity": [[0, 0], [last, 1]],
    }
    own = {"token": {"unit": "token"}}
    own |= {name: {"entry_types": name} for name in ("phrase", "entity")}
    return {name: PAIR | own[name] | {"mixing_rate": rates[name]} for name in rates}


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.optimizer.update(bias_correction=True, epsilon=1e-8)
    config.optimizer.epsilon_place = "before"
    config.model.update(token_types=2, norm_epsilon=1e-5, activation="relu")
    config.model.max_length = 513
    config.data.pairs = "each_copy"
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=18_000, length=128)
        config.train.update(steps=1_000_000, batch=65_536 // 128)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=5000)
    parts = stages(config.train.steps)
    config.objective.update(name="mix", base_objective="mlm", parts=parts)
    return config
