"""Whole words and ERNIE's entities against no pretraining, on Chinese tasks.

    palimpsest sweep --sweep=experiments/sweeps/chinese.py --tasks=tasks.toml \\
        --config.data.corpus='zh/*.jsonl' --config.data.lexicon=words.tsv \\
        --workdir=runs/chinese

Question: what does masking words and entities teach a Chinese network? The rows differ
in their masks alone, which hide equally many tokens; all else is BERT-wwm's, and the
row without pretraining is its network.

Departs: as published ERNIE has a network, an optimizer and a budget of its own, and
draws masks anew in each epoch. Below "paper" the optimizer is AdamW. Tasks are tuned
for the same number of steps, not of epochs.
"""

from experiments import ernie
from launch.sweeps import finetuning
from launch.sweeps.scales import SCALES

OWN = {
    "data.vocabulary_size": 6000,  # a piece is a character, at most
    "optimizer.name": "adamw",  # not LAMB, whose batches are large
    "optimizer.learning_rate": 1e-3,
}
"""Keys of pretraining, but for "paper"."""


def sweep(scale, tasks):
    own = {} if scale == "paper" else OWN | SCALES[scale].post_norm
    reference = finetuning.pretraining("", ("experiments/bert_wwm.py", own), scale)
    rows = {"bert_wwm": {}, "ernie": {"objective.parts": _stages(reference)}}

    def keys(row, base):
        return finetuning.like(reference, base)

    chosen = finetuning.own_tasks("chinese", tasks)
    for seed in range(SCALES[scale].pretraining_seeds):
        for row, more in rows.items():
            arm = f"experiments/{row}.py", more
            start = finetuning.pretraining(row, arm, scale, seed=seed, keys=keys)
            fresh = finetuning.NO_PRETRAINING if row == "bert_wwm" else ""
            yield from finetuning.with_baseline(
                row, start, chosen, scale, {}, fresh=fresh
            )


def _stages(reference):
    """ERNIE's, of a third of a pretraining's steps each, which mask as much as it."""
    config = finetuning.flat_config(reference)
    rate = {"rate": config["objective.rate"]}
    stages = ernie.stages(config["train.steps"])
    return {name: part | rate for name, part in stages.items()}
