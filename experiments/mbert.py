"""Multilingual BERT (Devlin et al. 2019, released code): one BERT for 104 Wikipedias.

    python -m launch.train --config=experiments/mbert.py:tiny --workdir=runs/mbert \
        --config.data.mixture='{"text/en/*.jsonl": 1, "text/de/*.jsonl": 1}'

Hidden is what BERT hides, 15 % of the tokens of two segments, and whether the second
follows the first. A corpus of the mixture is a language (rates are free; as it stands
the one language is the embedded corpus). Languages come at (their tokens) ** 0.7, among
rows and among the lines of the one WordPiece vocabulary; no input tells them apart.

Look at: what the smallest language has of it, against data.alpha=1: the first
valid/loss of a run on that language alone, with train.init_from and data.vocabulary
naming this one.

Departs: text is packed into pairs once, not once a copy of the noise; the first 90 % of
steps have the length of the others (released: 128, then 512).
"""

from experiments import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.update(name="mlm", format="segment_pair", sentence="nsp")
    config.objective.update(draw="all")
    config.data.update(alpha=0.7, dupe_factor=10, vocabulary="wordpiece")
    config.model.update(token_types=2, norm_placement="post", norm_epsilon=1e-12)
    config.model.update(init="truncated", dropout=0.1)
    config.optimizer.update(beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.bias_correction = False
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 119_547
        config.train.update(steps=1_000_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    return config
