r"""VL-BERT (Su et al. 2020): BERT that adds picture features at every position.

    palimpsest images --pictures=pictures --captions=captions.jsonl --to=images \
        --size=224
    palimpsest train --config=experiments/vl_bert.py:tiny --workdir=runs/vl_bert \
        --config.data.train=images/train.captioned \
        --config.data.valid=images/valid.captioned --config.objective.images=images

A line of captions.jsonl has `file`, `caption`, and `boxes` with `classes`. Regions
follow the caption in one row. Every token also reads the whole picture, and every
region its crop and its box. Masked words are predicted with visual clues, and so are
classes of regions, whose pixels are hidden before cropping. Whether picture and caption
match is not predicted.

Look at: valid/mlm against that of experiments/mlm.py on the same captions, and
valid/region_accuracy; --config.objective.match=joint adds what the paper found harmful.

Base starts from new parameters; the published one from BERT (train.init_from).

Departs (docs/fidelity.md has the values): train.batch; model.token_types;
features of a region; position of a region; end of a row; token of a region;
texts without pictures; what a row's length counts; number of words chosen.
"""

from experiments import visualbert

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = visualbert.get_config(size)
    config.objective.update(unit="word", match="none", region_rate=0.15)
    config.objective.update(box="sinusoids", text_reads="picture")
    config.model.feature_layers = "relu"
    config.optimizer.update(weight_decay=1e-4, clip_norm=10.0)
    config.optimizer.update(bias_correction=True, decay_from="warmup")
    if size == "base":
        config.data.length = 64
        config.optimizer.update(learning_rate=2.56e-5, warmup_steps=16_000)
        config.train.update(steps=242_187, batch=128)
    return config
