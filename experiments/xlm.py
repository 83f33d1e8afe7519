"""XLM (Conneau and Lample 2019): masked tokens of one language, or of two in parallel.

    python -m launch.train --config=experiments/xlm.py:tiny --workdir=runs/xlm \
        --config.data.corpus=en-fr.tsv

15 % of the tokens are masked, 80/10/10, rare ones more often (section 3.3: weights are
the inverse square root of the frequency). Half of the rows are a sentence and its
translation, whose positions restart at 0, so that a masked word may be inferred from
the other language; the other half are one of the two. The token type is the language.
Size and optimizer are those of the released command for the 15 languages of XNLI. A
corpus is a file of two columns; with several in data.mixture each part needs their
languages, as --config.objective.parts='{"tlm": {"languages": "0:1 0:2"}, ...}'.

Look at: valid/tlm with '{"tlm": {}}' and with '{"mlm": {"side": "one"}}' as the parts:
how much a translation reveals of a masked word.

Departs: monolingual rows are one sentence of the pairs, not streams of other text, and
causal language modelling is left out; 15 % are chosen of each row, not of each batch
(xlm/trainer.py, mask_out). The README's commands leave sample_alpha at 0, which masks
each token, separators too, with probability 0.15.
"""

from experiments import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "bpe"
    both = {"mixing_rate": 1.0, "random_tokens": "all", "sample_alpha": 0.5}
    parts = {"mlm": both | {"side": "one"}, "tlm": both}
    config.objective.update(name="mix", base_objective="tlm", parts=parts)
    config.model.update(
        token_types=2, norm_placement="post", norm_epsilon=1e-12, dropout=0.1
    )
    config.model.update(output_head="bias", init="xlm")
    config.optimizer.update(name="adam", schedule="rsqrt", epsilon=1e-8, clip_norm=5.0)
    config.optimizer.weight_decay = 0.0
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=95_000, length=256)
        config.model.update(width=1024, heads=8, feedforward=4096)
        config.train.update(steps=1_000_000, batch=64)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=4000)
    return config
