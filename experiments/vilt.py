r"""ViLT (Kim et al. 2021): one transformer for words and patches, without a detector.

    palimpsest images --pictures=pictures --captions=captions.tsv --to=images --size=72
    palimpsest train --config=experiments/vilt.py:tiny --workdir=runs/vilt \
        --config.data.train=images/train.captioned \
        --config.data.valid=images/valid.captioned --config.objective.images=images

A row is a caption, then a class token and the patches of its picture. Masked words are
predicted with the picture; in a separate pass the whole text is read with its picture
or with another one, and the pooled state predicts which. For matching pairs, the
optimal transport between the states of words and patches is minimized.

Look at: valid/match_accuracy against one half; valid/mlm against that of
experiments/mlm.py on the same captions.

Base is like ViT-B/32; the published one starts from a ViT of ImageNet.

Departs (docs/fidelity.md has the values): norm of the text's embeddings;
size of the pictures; half of a batch; token of a patch.
"""

from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.update(name="image_text", unit="word", alignment=0.1)
    config.objective.random_tokens = "all"
    config.data.update(format="captioned", vocabulary="wordpiece", sentinels=0)
    config.data.update(normalizer="uncased", length=40)
    config.model.update(token_types=2, norm_epsilon=1e-6, init="truncated")
    config.model.update(dropout=0.1, tie_embeddings=False)
    config.optimizer.update(weight_decay=0.01, learning_rate=1e-4, clip_norm=0.0)
    config.optimizer.update(beta2=0.98, decay_from="warmup")
    if size == "small":
        config.train.update(steps=2000, batch=64, eval_every=500)
        config.optimizer.learning_rate = 5e-4
    if size == "base":
        config.objective.patch = 32
        config.data.update(vocabulary_size=30_522, length=40)
        config.optimizer.warmup_steps = 2500
        config.train.update(steps=200_000, batch=4096)
    return config
