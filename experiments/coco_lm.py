"""COCO-LM (Meng et al. 2021): ELECTRA that also corrects tokens and contrasts texts.

palimpsest train --config=experiments/coco_lm.py:tiny --workdir=runs/coco_lm

A generator with a third of the layers replaces 15 % of the tokens. The main network
detects which (weight 50) and restores the original ones; its vector of the corrupted
text has to match that of a crop of nine tenths of the text, among those of the batch.

Look at: objective.contrast_coef=0, table 3 of the paper; objective.crop_rate; larger
batches have more negatives, and cannot be split (train.accumulate is 1).

Departs (docs/fidelity.md has the values): dropout of the generator that samples; vector
that is contrasted; bias of restored tokens.
"""

from ml_collections import ConfigDict

from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small") -> ConfigDict:
    config = base.get_config(size)
    config.data.vocabulary = "unigram"
    config.objective.update(name="coco_lm", generator_depth=1 / 3)
    config.model.update(norm_placement="post", norm_epsilon=1e-5, dropout=0.1)
    config.model.update(position_bias="t5")
    config.optimizer.update(beta2=0.98, epsilon=1e-6, weight_decay=0.01)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 32_768
        config.train.update(steps=125_000, batch=2048)
        config.optimizer.update(learning_rate=5e-4, warmup_steps=10_000)
    return config
