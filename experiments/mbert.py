"""Multilingual BERT (Devlin et al. 2019, released code): one BERT for 104 Wikipedias.

    palimpsest train --config=experiments/mbert.py:tiny --workdir=runs/mbert \
        --config.data.mixture='{"text/en/*.jsonl": 1, "text/de/*.jsonl": 1}'

The objective is BERT's: 15 % of the tokens of two segments, and next sentence
prediction. Each corpus of the mixture is a language (any rates; by default the one
language is the embedded corpus). A language is sampled in proportion to (its tokens) **
0.7, among rows and among the lines that train the WordPiece vocabulary; no input tells
the languages apart.

Look at: what the smallest language gains, against data.alpha=1: the first valid/loss of
a run on that language alone, with train.init_from and data.vocabulary naming this one.

The budget of the released model is not published; it is BERT's, 90 % of the steps at
length 128.

Departs (docs/fidelity.md has the values): clipping; order of the copies.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = bert.get_config(size)
    config.data.update(alpha=0.7, normalizer="none")
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 119_547
    return config
