"""WKLM (Xiong et al. 2020): which entities of a text were exchanged for others.

    python -m launch.train --config=experiments/wklm.py:tiny --workdir=runs/wklm \
        --config.data.corpus=wiki.jsonl --config.data.lexicon=entities.tsv

A mention is an entry of the lexicon (lines of an entity, a tab and its type). A third
of them, never two in a row, become another entity of the same type, and the states
before and after each say whether it is the text's own. Besides, 5 % of the tokens are
hidden, outside of mentions, and recovered.

Look at: valid/entity_accuracy beside 1 - valid/replaced, which is what always answering
"original" scores.

Departs: mentions are found by their spelling, not by links; an entity has one name; a
text is not repeated with ten noises, but has new ones each time. Base goes on from
BERT's parameters (train.init_from), as in the paper.
"""

from experiments import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "wordpiece"
    config.objective.name = "wklm"
    config.model.update(norm_placement="post", norm_epsilon=1e-12)
    config.model.update(init="truncated", dropout=0.1)
    config.optimizer.update(beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.bias_correction = False
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=1_000_000, batch=128)
        config.optimizer.update(learning_rate=1e-5, warmup_steps=100_000)
    return config
