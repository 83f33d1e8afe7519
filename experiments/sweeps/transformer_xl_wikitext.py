"""Transformer-XL on WikiText-103 (Dai et al. 2019): the perplexity of words.

    palimpsest sweep --sweep=experiments/sweeps/transformer_xl_wikitext.py \\
        --workdir=runs/wikitext --config.data.train=wiki.train.tokens.txt \\
        --config.data.valid=wiki.valid.tokens.txt

Question: how much does a larger network lower the perplexity of words and ends of
lines? Words that a scale's vocabulary does not hold are one unknown token, which lowers
the perplexity: numbers of other scales and texts are compared in sign alone.
"""

from experiments.sweeps.transformer_xl_enwik8 import stand_in
from launch.sweeps import finetuning

FILES = (
    "--config.data.train=wiki.train.tokens.txt "
    "--config.data.valid=wiki.valid.tokens.txt"
)
"""Flags of its files, which `palimpsest claims --rerun` prints."""
SHAPES = {  # layers, width, heads, feed-forward width
    "smoke": {"base": (2, 80, 2, 400), "large": (2, 160, 4, 640)},
    "quick": {"base": (2, 80, 2, 400), "large": (2, 160, 4, 640)},
    "cpu": {"base": (4, 120, 3, 600), "large": (4, 240, 4, 960)},
    "small": {"base": (8, 320, 10, 1600), "large": (10, 640, 10, 2560)},
}
NAMES = ("model.layers", "model.width", "model.heads", "model.feedforward")
WORDS = {"data.vocabulary": "words", "data.sentinels": 0}


def sweep(scale):
    def keys(row, base):
        if scale == "paper":
            return WORDS
        shape = dict(zip(NAMES, SHAPES[scale][row], strict=True))
        return WORDS | shape | stand_in(base["data.length"])

    sizes = {"base": "base", "large": "large"}
    name = "transformer-xl-wikitext"
    return finetuning.pretrainings(name, scale, keys=keys, sizes=sizes)
