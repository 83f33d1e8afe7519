"""ModernBERT (Warner et al. 2024): masked tokens with today's network and optimizer.

palimpsest train --config=experiments/modernbert.py:tiny --workdir=runs/modernbert

30 % of the tokens are masked. Two of three layers attend to 128 positions around a
token, every third layer to all. The rate warms up, is constant, and falls by a square
root at the end; rows become eight times longer for the last 15 % of the steps.

Look at: valid losses are at 30 % masks, not at BERT's 15 %; optimizer.name with adamw
and clip_norm=1; model.window=0.

A branch of a stable phase: a run of more steps may be read at any of its checkpoints
before the decay; train.init_from=WORKDIR/checkpoints/STEP with optimizer.warmup_steps=0
and decay_fraction=1 is its decay (docs/since_2020.md).

Departs (docs/fidelity.md has the values): model.init; model.residual_dropout;
optimizer.learning_rate; train.batch.
"""

from ml_collections import ConfigDict

from research.config import base

SIZES = ("tiny", "small", "base", "large")
PUBLISHED = {"base": (22, 768, 1152), "large": (28, 1024, 2624)}
"""Size -> layers, width and width of the gated feed-forward layers."""


def get_config(size: str = "small") -> ConfigDict:
    config = base.get_config(size)
    config.data.vocabulary = "bytebpe"
    config.objective.update(name="mlm", rate=0.3)
    config.model.update(position="rotary", rope_theta=160_000.0, window=64)
    config.model.update(rope_theta_local=10_000.0, global_every=3)
    config.model.update(embedding_norm="always", first_attention_norm=False)
    config.model.update(norm_epsilon=1e-5, activation="geglu_exact", bias=False)
    config.model.update(output_head="transform", init="gpt2")
    config.optimizer.update(name="stable_adamw", beta2=0.98, epsilon=1e-6)
    config.optimizer.update(weight_decay=1e-5, clip_norm=0.0)
    config.optimizer.update(schedule="one_minus_sqrt", decay_fraction=0.025)
    if size in PUBLISHED:
        layers, width, feedforward = PUBLISHED[size]
        config.data.update(vocabulary_size=50_368, length=8192)
        config.model.update(layers=layers, width=width, heads=width // 64)
        config.model.update(feedforward=feedforward, max_length=8192)
        config.train.update(steps=423_855, batch=576)
        config.train.phases = [[0.85, {"data.length": 1024, "train.batch": 4608}]]
        rate = 8e-4 if size == "base" else 5e-4
        config.optimizer.update(learning_rate=rate, warmup_steps=636)
    return config
