r"""LXMERT (Tan and Bansal 2019): language, object and cross-modality encoders.

    palimpsest images --pictures=pictures --captions=captions.jsonl --to=images \
        --size=224 --label-column=answer
    palimpsest train --config=experiments/lxmert.py:tiny --workdir=runs/lxmert \
        --config.data.train=images/train.captioned \
        --config.data.valid=images/valid.captioned --config.objective.images=images \
        --config.objective.answers=label

A line of captions.jsonl has `file`, `caption`, `boxes` with `classes`, and, if the
caption is a question, `answer`. Words and regions are read by separate layers, then by
layers that also attend to the other modality. Five tasks: masked words, pixels of
hidden regions, classes of regions, whether picture and caption match, and answers.
Without answers leave out --label-column and the last flag.

Look at: valid/region_accuracy and valid/regression against those with captions of other
pictures; valid/answer_accuracy against the most frequent answer; --config.objective.
region_regression=none or region_classes=none, the paper's ablation (table 5).

Departs (docs/fidelity.md has the values): features of a region;
attributes of a region; weight of a class; layers of classes and features;
layers of the answer; what is replaced; the whole picture; number of words chosen.
"""

from experiments import vilbert

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = vilbert.get_config(size)
    config.objective.update(box="edges", pool="first", match_label="matched")
    config.objective.update(region_mask_fraction=0.8, region_random_fraction=0.1)
    config.objective.update(classified="all", region_coef=1 / 0.15)
    config.objective.update(region_classes="class", region_regression="smooth_l1")
    config.data.length = 20
    config.model.update(cross="shared", image_embedding="mean", init="normal")
    config.model.image_layers = config.model.co_layers
    if size == "base":
        config.model.update(layers=14, co_layers=5, image_layers=5, image_heads=0)
        config.optimizer.warmup_steps = 35_860
        config.train.update(steps=717_187, batch=256)
    return config
