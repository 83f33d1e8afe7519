r"""VisualBERT (Li et al. 2019): BERT that reads regions of a picture after its caption.

    palimpsest images --pictures=pictures --captions=captions.jsonl --to=images \
        --size=224
    palimpsest train --config=experiments/visualbert.py:tiny --workdir=runs/visualbert \
        --config.data.train=images/train.captioned \
        --config.data.valid=images/valid.captioned --config.objective.images=images

A line of captions.jsonl has `file`, `caption` and `boxes`. Each box is a region, whose
pixels are embedded instead of a detector's features; all regions have one position and
no box. Words are masked, regions are not, and the state at bos predicts whether picture
and caption match.

Look at: valid/match_accuracy against one half; ImageBERT's further losses are
--config.objective.region_rate=0.15 objective.box=corners objective.mismatched=dropped,
for captions.jsonl with `classes`.

Departs (docs/fidelity.md has the values): features of a region; captions of a row;
the whole picture; tables of regions.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.objective.update(name="image_text", regions="boxes", match="joint")
    config.objective.update(patch=16, random_tokens="all")
    config.data.update(format="captioned", sentinels=0, length=40)
    config.model.token_types = 2
    config.optimizer.learning_rate = 5e-5
    if size == "small":
        config.train.update(steps=2000, batch=64, eval_every=500)
        config.optimizer.learning_rate = 5e-4
    if size == "base":
        config.data.update(vocabulary_size=30_522, length=128)
        config.train.update(steps=88_000, batch=64)
        config.optimizer.warmup_steps = 8_800
    return config
