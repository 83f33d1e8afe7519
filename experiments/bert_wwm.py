"""BERT-wwm (Cui et al. 2021): Chinese BERT with whole word masking.

    palimpsest train --config=experiments/bert_wwm.py:tiny --workdir=runs/wwm \
        --config.data.corpus=zh.jsonl --config.data.lexicon=words.tsv

All characters of a word are masked together. Words are those of a lexicon (lines of a
word, a tab and "word"), matched from left to right, the longest first; any other
character is a word of its own. The rest is BERT: 80/10/10 character by character, and
next sentence prediction.

Look at: valid/mlm with objective.entry_types="" (single characters, Google's Chinese
BERT), which is the easier task.

Base has 100K steps of 2,560 rows of 128 tokens, then 100K of 384 rows of 512.

Departs (docs/fidelity.md has the values): objective.entry_types; clipping; order of the
copies; initial parameters.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = bert.get_config(size)
    config.objective.update(unit="word", entry_types="word")
    config.model.activation = "gelu_tanh"  # of BERT's code since February 2019
    config.optimizer.update(name="lamb", trust_ratio="all", learning_rate=1e-2)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 21_128
        config.train.update(steps=200_000, batch=384)
        half = {"data.length": 128, "train.batch": 2560}
        config.train.phases = [[0.5, half]]
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    return config
