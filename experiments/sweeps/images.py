"""One stream beside two, with and without losses of regions and of matching.

    palimpsest sweep --sweep=experiments/sweeps/images.py --scale=quick \\
        --config.data.train=N/train.captioned --config.data.valid=N/valid.captioned \\
        --config.objective.images=N --workdir=runs/images
    palimpsest report --table=experiments/tables/images.toml --workdir=runs/images

Question: what do the choices change by which the surveys tell VisualBERT, ImageBERT,
ViLBERT and LXMERT apart, where text, pictures, regions, batch and steps are equal? N is
the folder of `palimpsest images`, of pictures whose captions have boxes and classes; at
smoke and quick that of the described pictures of experiments/studies/nlvr.py. The rows
of a stream are lines 9, 6 and 5 of UNITER's table 2: masked words, whether the picture
is the caption's, and the classes of masked regions; then without the last; then words
alone. Masked words are predicted beside the right picture in all rows: matching has a
pass of its own, whose time the rows without it save. Co-attention and a layer of the
image make the two streams as large as one stream of three layers more, the last row.

Departs from the systems: all rows read crops and mask tokens alike, and regions and
words at once (UNITER: one of both); the two streams have more parameters at equal
layers and width, as in the papers.
"""

from collections.abc import Iterator
from typing import Any

from launch.sweeps.scales import SCALES

SEEDS = 6
FILES = (
    "--config.data.train=N/train.captioned --config.data.valid=N/valid.captioned "
    "--config.objective.images=N"
)
"""Flags of its files, which `palimpsest claims --rerun` prints."""
BASELINE = "one stream"
STREAMS = {"model.network": "two_streams", "model.co_layers": 1}
REGIONS = {"objective.region_rate": 0.15}
WITHOUT: dict[str, dict[str, Any]] = {
    "": REGIONS,
    ", no regions": {},
    ", words alone": {"objective.match": "none"},
}
ROWS = {
    name + suffix: streams | objective
    for name, streams in ((BASELINE, {}), ("two streams", STREAMS))
    for suffix, objective in WITHOUT.items()
}
DEEPER = "one stream, deeper"
"""About as many parameters as two streams."""

SMALL = {
    "data.vocabulary": "words",
    "data.vocabulary_size": 17,
    "data.length": 44,
    "model.layers": 2,
    "model.width": 64,
    "model.heads": 4,
    "model.feedforward": 256,
    "model.dropout": 0.0,
    "train.batch": 32,
    "train.steps": 1000,
    "train.eval_every": 0,
    "train.checkpoint_every": 0,
    "optimizer.learning_rate": 1e-3,
    "optimizer.warmup_steps": 50,
}
"""40 passes over 789 descriptions, whose 17 words are all of the vocabulary."""


def sweep(scale: str) -> Iterator[tuple]:
    steps = {"smoke": SMALL | {"train.steps": 30}, "quick": SMALL}
    shape = {"model.norm_placement": "post", "objective.patch": 8}
    shape |= {"objective.regions": "boxes", "objective.box": "corners"}
    shape |= {"objective.unit": "token", "objective.alignment": 0.0}
    keys: dict[str, Any] = shape | steps.get(scale, SCALES[scale].shape)
    rows = ROWS | {DEEPER: REGIONS | {"model.layers": keys["model.layers"] + 3}}
    for seed in range(SEEDS):
        for row, own in rows.items():
            yield (
                "experiments/vilt.py",
                keys | own | {"seed": seed},
                (row, "pretraining"),
            )
