r"""ViLBERT (Lu et al. 2019): a stream of words, one of regions, and co-attention.

    palimpsest images --pictures=pictures --captions=captions.jsonl --to=images \
        --size=224
    palimpsest train --config=experiments/vilbert.py:tiny --workdir=runs/vilbert \
        --config.data.train=images/train.captioned \
        --config.data.valid=images/valid.captioned --config.objective.images=images

A line of captions.jsonl has `file`, `caption`, and `boxes` with `classes`, each a name
or, as a detector has it, an object of names and probabilities. The whole
picture and the crops of its boxes are a stream of their own; in the upper layers each
stream attends to the other. Masked words, the classes of regions whose pixels are
hidden, and whether picture and caption match are predicted.

Look at: valid/region_accuracy against that with captions of other pictures; and
valid/match_accuracy against one half.

The published text stream starts from BERT (train.init_from).

Departs (docs/fidelity.md has the values): model.image_feedforward;
features of a region; width of the image's stream; what is replaced;
token of a region; first region; number of words chosen.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.objective.update(name="image_text", regions="boxes", box="corners")
    config.objective.update(patch=16, random_tokens="all", region_rate=0.15)
    config.objective.update(match="joint", match_label="replaced", pool="product")
    config.data.update(format="captioned", sentinels=0, length=36)
    config.model.update(network="two_streams", token_types=2)
    config.model.co_layers = config.model.layers // 2
    config.model.image_feedforward = config.model.feedforward
    if size == "small":
        config.train.update(steps=2000, batch=64, eval_every=500)
        config.optimizer.learning_rate = 5e-4
    if size == "base":
        config.data.vocabulary_size = 30_522
        config.model.update(co_layers=6, image_heads=8)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=6055)
        config.train.update(steps=60_550, batch=512)
    return config
