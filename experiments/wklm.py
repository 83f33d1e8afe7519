"""WKLM (Xiong et al. 2020): detects which entities of a text were replaced.

    palimpsest train --config=experiments/wklm.py:tiny --workdir=runs/wklm \
        --config.data.corpus=wiki.jsonl --config.data.lexicon=entities.tsv

A mention is an entry of the lexicon (lines of an entity, a tab and its type). A third
of them, never two in succession, become another entity of the same type, and the states
before and after each mention predict whether it is the original. In addition, 5 % of
the tokens outside mentions are masked and predicted. Each text has ten such
corruptions. The network and the optimizer are those of the first author's code.

Look at: valid/entity_accuracy against 1 - valid/replaced, the accuracy of always
answering "original".

Base starts from BERT's parameters (train.init_from), as in the paper.

Departs (docs/fidelity.md has the values): model.token_types; pieces without mentions;
tokens of a row of a long document; mentions; name of a new entity; initial parameters.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.data.dupe_factor = 10
    config.objective.update(name="wklm", masks="dropped", head="softmax")
    config.objective.text_unit = "pieces"
    config.model.update(init="normal", head_dropout=0.05)
    config.optimizer.update(epsilon=1e-8, epsilon_place="before", bias_correction=True)
    config.optimizer.update(decay_params="all", clip_norm=25.0)
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=1_000_000, batch=128)
        config.optimizer.update(learning_rate=1e-5, schedule="constant", warmup_steps=0)
    return config
