"""One stream beside two, with and without losses of regions and of matching.

    palimpsest sweep --sweep=experiments/sweeps/images.py --scale=quick \\
        --config.data.train=E/train.captioned --config.data.valid=E/valid.captioned \\
        --config.objective.images=E --workdir=runs/images
    palimpsest report --table=experiments/tables/images.toml --workdir=runs/images

Question: what do the choices change by which the surveys tell VisualBERT, ImageBERT,
ViLBERT and LXMERT apart, where text, pictures, batch and steps are equal? E is the
folder of `palimpsest images`, of emoji or of pictures of one's own. Regions are
patches, so no boxes are needed, and the loss of regions is that of their pixels. Masked
words are predicted beside the right picture in all rows: matching has a pass of its
own, whose time the rows without it save.

Departs from the systems: all rows read patches and mask tokens alike; the two streams
have more parameters at equal layers and width, as in the papers.
"""

from collections.abc import Iterator
from typing import Any

from launch.sweeps.scales import SCALES

SEEDS = 3
BASELINE = "one stream"
REGIONS = {
    "objective.region_rate": 0.15,
    "objective.region_classes": "none",
    "objective.region_regression": "l2",
}
STREAMS = {"model.network": "two_streams", "model.co_layers": 1}
WITHOUT = {
    "": {},
    ", no regions": dict.fromkeys(REGIONS),
    ", no matching": {"objective.match": "none"},
}
ROWS = {
    name + suffix: (STREAMS if name == "two streams" else {}) | REGIONS | changes
    for name in (BASELINE, "two streams")
    for suffix, changes in WITHOUT.items()
}
SMALL = {
    "data.vocabulary_size": 1024,
    "data.length": 16,
    "model.layers": 2,
    "model.width": 64,
    "model.heads": 2,
    "model.feedforward": 256,
    "train.batch": 32,
    "train.steps": 300,
    "train.eval_every": 0,
    "train.checkpoint_every": 0,
    "optimizer.learning_rate": 1e-3,
    "optimizer.warmup_steps": 30,
}
"""Ten passes over a thousand captions."""


def sweep(scale: str) -> Iterator[tuple]:
    steps = {"smoke": SMALL | {"train.steps": 30}, "quick": SMALL}
    shape = {"model.norm_placement": "post", "objective.patch": 24}
    shape |= {"objective.unit": "token", "objective.alignment": 0.0}
    keys: dict[str, Any] = shape | steps.get(scale, SCALES[scale].shape)
    for row, changes in ROWS.items():
        own = {name: value for name, value in changes.items() if value is not None}
        for seed in range(SEEDS):
            yield (
                "experiments/vilt.py",
                keys | own | {"seed": seed},
                (row, "pretraining"),
            )
