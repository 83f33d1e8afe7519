"""XLM (Conneau and Lample 2019): masked tokens of one language, or of two in parallel.

    palimpsest train --config=experiments/xlm.py:tiny --workdir=runs/xlm \
        --config.data.corpus=en-fr.tsv

15 % of the tokens are masked, 80/10/10, rare ones more often (section 3.3: weights are
the inverse square root of the frequency). A corpus is parallel text, a file of two
columns or, with --config.data.fields=en,fr, files *.en and *.fr, or text in one
language. A row of parallel text is a sentence and its translation, in either order,
whose positions restart at 0, so that a masked word may be inferred from the other
language; text in one language is read in streams of 256 tokens. The token type is the
language, and a batch is from one corpus. Both kinds of text are sampled equally often,
corpora of one kind in proportion to (their tokens) ** 0.7 (section 3.5):

    --config.data.mixture='{"1.tsv": 1, "2-en.txt": 1, "2-fr.txt": 1}' \
    --config.objective.languages='0:1 0 1'

names the languages of each corpus, in order of the corpora's names. With
--config.objective.predict=next it is the causal language model of section 3.2. Size and
optimizer are those of the released command for the 15 languages of XNLI.

Look at: valid/tlm against --config.objective.side=one: how much a translation reveals
about a masked word.

The README's commands leave sample_alpha at 0, which masks each token, separators too,
with probability 0.15.

Departs (docs/fidelity.md has the values): optimizer.beta2; optimizer.warmup_steps;
optimizer.schedule; rate of the first step, in parts of peak / warm-up; number of masked
tokens; sampling of the vocabulary's text; pairs with more than 100 tokens on a side;
rows of pairs in a batch; end of a line.
"""

from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.update(vocabulary="bpe", normalizer="uncased", alpha=0.7)
    config.data.mixing = "batches"
    config.objective.update(name="tlm", random_tokens="all", sample_alpha=0.5)
    config.objective.order = "random"
    config.model.update(
        token_types=2, norm_placement="post", norm_epsilon=1e-12, dropout=0.1
    )
    config.model.update(output_head="bias", init="xlm")
    config.optimizer.update(name="adam", schedule="rsqrt", epsilon=1e-8, clip_norm=5.0)
    config.optimizer.epsilon_place = "before"
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=95_000, length=256)
        config.model.update(width=1024, heads=8, feedforward=4096)
        config.train.update(steps=1_000_000, batch=1024)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=4000)
    return config
