"""Transformer-XL (Dai et al. 2019): a causal language model with mems.

python -m launch.train --config=experiments/transformer_xl.py:tiny --workdir=runs/txl

Each token is predicted from those before it; a row also attends to the row before it,
by the layers' inputs of the step before. Rows of a batch are contiguous streams, also
in an evaluation.

Look at: valid/lm with --config.objective.mem_len=0, which is higher the shorter a row.

Departs: pieces and a full softmax instead of WikiText-103's 267,735 words and the
adaptive softmax over them; token embeddings are not scaled by sqrt(width); attention
has the same dropout; mem_len is the same in evaluation as in training (paper: 640,
1600).
"""

from experiments import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:2x2", {"mesh.fsdp": 2}), "large": ("v5e:8x8", {"mesh.fsdp": 8})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.name = "lm"
    config.model.update(
        position="relative", norm_placement="post", embedding_norm="never"
    )
    config.model.update(activation="relu", norm_epsilon=1e-5, dropout=0.1)
    config.optimizer.update(name="adam", beta2=0.999, epsilon=1e-8, schedule="cosine")
    config.optimizer.update(weight_decay=0.0, clip_norm=0.25, decay_from="start")
    if size == "base":
        config.data.length = 150
        config.model.update(layers=16, width=410, heads=10, feedforward=2100)
        config.train.update(steps=200_000, batch=60)
        config.optimizer.update(learning_rate=2.5e-4, warmup_steps=0)
    if size == "large":
        config.data.length = 384
        config.model.update(layers=18, dropout=0.2)
        config.train.update(steps=4_000_000, batch=128)
        config.optimizer.update(learning_rate=2.5e-4, warmup_steps=16_000)
    config.objective.mem_len = config.data.length
    return config
