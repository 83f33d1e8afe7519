"""Whole words and ERNIE's entities against no pretraining, on Chinese tasks.

    python -m launch.sweep --sweep=experiments/sweeps/chinese.py --tasks=tasks.toml \\
        --config.data.corpus='zh/*.jsonl' --config.data.lexicon=words.tsv \\
        --workdir=runs/chinese

Question: what does masking words and entities teach a Chinese network? Both rows have
the same text, vocabulary and optimizer; the row without pretraining is the first one's.

Departs: tasks are tuned for the same number of steps, not of epochs.
"""

from experiments import ernie
from launch.sweeps import finetuning
from launch.sweeps.scales import SCALES

ROWS = ("bert_wwm", "ernie")
OWN = {
    "data.vocabulary_size": 6000,  # a piece is a character, at most
    "optimizer.name": "adamw",  # not LAMB, whose batches are large
    "optimizer.learning_rate": 1e-3,
}
"""Keys of pretraining, but for "paper"."""


def sweep(scale, tasks):
    own, stages = {}, {}
    if scale != "paper":
        own = OWN | SCALES[scale].post_norm
        steps = SCALES[scale].pretraining["train.steps"]
        stages = {"ernie": {"objective.parts": ernie.stages(steps)}}
    chosen = finetuning.own_tasks("chinese", tasks)
    for seed in range(SCALES[scale].pretraining_seeds):
        for row in ROWS:
            arm = f"experiments/{row}.py", own | stages.get(row, {})
            start = finetuning.pretraining(row, arm, scale, seed=seed)
            fresh = finetuning.NO_PRETRAINING if row == ROWS[0] else ""
            yield from finetuning.with_baseline(
                row, start, chosen, scale, {}, fresh=fresh
            )
