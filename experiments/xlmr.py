"""XLM-R (Conneau et al. 2020): RoBERTa's masked language model of 100 languages.

    palimpsest train --config=experiments/xlmr.py:tiny --workdir=runs/xlmr \
        --config.data.mixture='{"text/en/*.jsonl": 1, "text/sw/*.jsonl": 1}'

15 % of the tokens of whole sentences, across documents, are masked. Each corpus of the
mixture is a language (any rates; by default the one language is the embedded corpus). A
language is sampled in proportion to (its tokens) ** 0.3, among rows and among the lines
that train the SentencePiece vocabulary; no input tells the languages apart, and no text
is parallel.

Look at: what a small language gains as others join the mixture (transfer, then
dilution), and against data.alpha=0.7: the first valid/loss of a run on only that
language, with train.init_from and data.vocabulary naming this one.

The paper does not give its peak learning rate; RoBERTa's is used.

Departs (docs/fidelity.md has the values): random tokens; rate of the second step, in
parts of peak / warm-up; end of a line.
"""

from experiments import roberta
from research.config import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:16x16", {"mesh.fsdp": 16})}


def get_config(size: str = "small"):
    config = roberta.get_config(size)
    config.data.update(alpha=0.3, vocabulary="unigram")
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 250_000
        config.train.steps = 1_500_000
    return config
