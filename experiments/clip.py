r"""CLIP (Radford et al. 2021): contrasts images and captions within a batch.

    palimpsest images --pictures=pictures --captions=captions.tsv --to=images --size=72
    palimpsest train --config=experiments/clip.py:tiny --workdir=runs/clip \
        --config.data.train=images/train.captioned \
        --config.data.valid=images/valid.captioned --config.objective.images=images

One tower reads the patches of a picture, another the caption; each outputs a vector.
Every picture has to find its caption among those of the batch, and every caption its
picture. A larger batch has more negatives: data-parallel devices share one batch, and
train.accumulate reads it in parts, whose vectors are compared together.

Look at: valid/image_to_text_5 and text_to_image_5, the fraction of pictures (captions)
whose caption (picture) is among the nearest five of the split; train/contrast, which
begins near ln(train.batch) and stays there if nothing is learned; train/scale, which
grows from 14.

Base is ViT-B/32 with pictures of 224 pixels.

Departs (docs/fidelity.md has the values): model.init; size of the pictures;
bias of a patch; bound of the scale.
"""

from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.update(name="clip", patch=12, width=config.model.width)
    config.data.update(format="captioned", vocabulary="bytebpe", normalizer="uncased")
    config.data.update(sentinels=0, length=32)
    config.model.update(network="two_towers", init="xlm", activation="quick_gelu")
    config.model.norm_epsilon = 1e-5
    config.optimizer.update(schedule="cosine", weight_decay=0.2, beta2=0.98)
    config.optimizer.update(epsilon=1e-6, learning_rate=5e-4, clip_norm=0.0)
    if size == "small":
        config.train.update(steps=2000, batch=128, eval_every=500)
    if size == "base":
        config.objective.update(patch=32, width=512)
        config.data.update(vocabulary_size=49_408, length=77)
        model = config.model
        model.update(layers=12, width=512, heads=8, feedforward=2048, max_length=77)
        model.update(image_layers=12, image_width=768)
        model.update(image_heads=12, image_feedforward=3072)
        config.optimizer.warmup_steps = 2000
        config.train.update(steps=390_625, batch=32_768)
    return config
