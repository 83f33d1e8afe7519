"""DeBERTaV3 (He et al. 2023): ELECTRA with disentangled attention and embeddings.

palimpsest train --config=experiments/deberta_v3.py:tiny --workdir=runs/deberta_v3

A generator with half the layers predicts masked tokens, and its samples replace them;
for every token the discriminator predicts whether it is the original. Attention has
separate projections for relative positions, in logarithmic buckets. The discriminator's
token embeddings are the generator's plus differences, so that its loss does not update
the generator's. The generator reads absolute positions only in its last layer.

Look at: objective.tie with embedding and none, the paper's table 3; model.position;
model.mask_decoder.

Departs (docs/fidelity.md has the values): optimizer.clip_norm; where a row's chosen
tokens lie.
"""

from ml_collections import ConfigDict

from research.config import base

SIZES = ("tiny", "small", "deberta_v3_small", "base", "large")
PUBLISHED = {"deberta_v3_small": (6, 768), "base": (12, 768), "large": (24, 1024)}
"""Size -> layers and width; heads are 64 wide."""


def get_config(size: str = "small") -> ConfigDict:
    config = base.get_config("base" if size == "deberta_v3_small" else size)
    config.data.vocabulary = "unigram"
    config.objective.update(name="electra", mask_fraction=1.0, coef=10.0)
    config.objective.update(generator_size=1.0, generator_depth=0.5)
    config.objective.update(tie="gdes", head="class")
    config.model.update(position="disentangled", distance_buckets=256)
    config.model.update(largest_distance=512, mask_decoder=2)
    config.model.update(norm_placement="post", norm_epsilon=1e-7, dropout=0.1)
    config.optimizer.update(name="adamw", beta2=0.999, epsilon=1e-6)
    config.optimizer.bias_correction = False
    config.optimizer.update(weight_decay=0.01)
    if size in PUBLISHED:
        layers, width = PUBLISHED[size]
        config.data.update(vocabulary_size=128_100, length=512)
        config.model.update(layers=layers, width=width, heads=width // 64)
        config.model.update(feedforward=4 * width, max_length=512)
        config.train.update(steps=1_000_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    return config
