r"""ImageBERT (Qi et al. 2020): BERT with four tasks on captions and regions of images.

    palimpsest images --pictures=pictures --captions=captions.jsonl --to=images \
        --size=224
    palimpsest train --config=experiments/imagebert.py:tiny --workdir=runs/imagebert \
        --config.data.train=images/train.captioned \
        --config.data.valid=images/valid.captioned --config.objective.images=images

A line of captions.jsonl has `file`, `caption`, and `boxes` with `classes`. Regions
follow the caption in one row, with their boxes. Masked words, classes and pixels of
hidden regions, and whether picture and caption match are predicted; the first three
only if they match (the paper's conditional mask).

Look at: valid/region_accuracy and valid/regression; valid/match_accuracy against one
half; --config.objective.mismatched=kept, which also scores words and regions of other
pictures.

Base is the first of two stages; the second is a run on other captions
(train.init_from).

Departs (docs/fidelity.md has the values): features of a region; token of a region;
the whole picture.
"""

from experiments import visualbert

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = visualbert.get_config(size)
    config.objective.update(box="corners", region_rate=0.15, mismatched="dropped")
    config.objective.update(region_classes="class", region_regression="l2")
    if size == "base":
        config.data.length = 44
        config.optimizer.update(learning_rate=1e-4, warmup_steps=354_166)
        config.train.update(steps=3_541_666, batch=48)
    return config
