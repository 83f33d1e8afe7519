"""WKLM (Xiong et al. 2020): detects which entities of a text were replaced by others.

    python -m launch.train --config=experiments/wklm.py:tiny --workdir=runs/wklm \
        --config.data.corpus=wiki.jsonl --config.data.lexicon=entities.tsv

A mention is an entry of the lexicon (lines of an entity, a tab and its type). A third
of them, never two in succession, become another entity of the same type, and the states
before and after each mention predict whether it is the original. Besides, 5 % of the
tokens are masked, outside mentions, and predicted.

Look at: valid/entity_accuracy beside 1 - valid/replaced, the accuracy of always
answering "original".

Base starts from BERT's parameters (train.init_from), as in the paper.

Departs (docs/fidelity.md has the values): data.dupe_factor; model.token_types;
mentions; name of a new entity; initial parameters.
"""

from experiments import base, bert

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.objective.name = "wklm"
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=1_000_000, batch=128)
        config.optimizer.update(learning_rate=1e-5, warmup_steps=100_000)
    return config
