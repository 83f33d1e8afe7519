"""ERNIE 1.0 (Sun et al. 2019): characters, then phrases, then entities are hidden.

    python -m launch.train --config=experiments/ernie.py:tiny --workdir=runs/ernie \
        --config.data.corpus=zh.jsonl --config.data.lexicon=phrases.tsv

Hidden are 15 % of the tokens, in three stages of a third of the steps each: single
tokens; whole phrases, and single words where no phrase fits; whole entities likewise.
Phrases and entities are those of a lexicon (lines of an entry, a tab, and "phrase" or
"entity"). Whether two segments follow each other is asked throughout, as released.

Look at: train/mlm at the two changes: each stage is harder than the one before. What
is evaluated is the last stage.

Departs: the paper names no optimizer; it is BERT's. Its dialogue model (three roles) is
left out, and so are its chunker and its tagger: the lexicon stands for both.
"""

from experiments import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "wordpiece"
    config.model.update(token_types=2, norm_placement="post", norm_epsilon=1e-12)
    config.model.update(init="truncated", dropout=0.1)
    config.optimizer.update(beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.bias_correction = False
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 18_000
        config.train.update(steps=1_000_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    pair = {"format": "segment_pair", "sentence": "nsp", "unit": "lexicon"}
    first, last = config.train.steps // 3, 2 * config.train.steps // 3
    parts = {"token": pair | {"unit": "token", "mixing_rate": [[0, 1], [first, 0]]}}
    parts["phrase"] = pair | {"kinds": "phrase", "mixing_rate": [[first, 1], [last, 0]]}
    parts["entity"] = pair | {"kinds": "entity", "mixing_rate": [[last, 1]]}
    config.objective.update(name="mix", base_objective="mlm", parts=parts)
    return config
