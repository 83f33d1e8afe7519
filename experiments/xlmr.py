"""XLM-R (Conneau et al. 2020): RoBERTa's masked language model of 100 languages.

    python -m launch.train --config=experiments/xlmr.py:tiny --workdir=runs/xlmr \
        --config.data.mixture='{"text/en/*.jsonl": 1, "text/sw/*.jsonl": 1}'

Hidden are 15 % of the tokens of whole sentences, across documents. A corpus of the
mixture is a language (rates are free; as it stands the one language is the embedded
corpus). Languages come at (their tokens) ** 0.3, among rows and among the lines of the
one SentencePiece vocabulary; no input tells them apart, and no text is parallel.

Look at: what a small language has of it as others join the mixture (transfer, then
dilution), and against data.alpha=0.7: the first valid/loss of a run on that language
alone, with train.init_from and data.vocabulary naming this one.

Departs: the paper does not give its peak learning rate; it is RoBERTa's here.
"""

from experiments import base

SIZES = ("tiny", "small", "base", "large")
SLICES = {"base": ("v5e:16x16", {"mesh.fsdp": 16})}


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.update(name="mlm", format="full_sentences", rounding="random")
    config.data.update(alpha=0.3, vocabulary="unigram")
    config.model.update(norm_placement="post", norm_epsilon=1e-5, dropout=0.1)
    config.optimizer.update(beta2=0.98, epsilon=1e-6, weight_decay=0.01, clip_norm=0.0)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 250_000
        config.train.update(steps=1_500_000, batch=8192)
        rate, warmup = (4e-4, 30_000) if size == "large" else (6e-4, 24_000)
        config.optimizer.update(learning_rate=rate, warmup_steps=warmup)
    return config
