"""K-BERT (Liu et al. 2020): a task's texts with triples attached to their words.

    palimpsest train --config=experiments/kbert.py:tiny --workdir=runs/kbert \
        --config.data.train=train.tsv --config.data.valid=dev.tsv \
        --config.data.fields=text_a --config.data.label=label \
        --config.data.lexicon=HowNet.spo.gz --config.train.init_from=runs/bert

Up to two triples of each word in the graph are branches of the text: their positions
continue from their word, and only their word attends to them. There is no pretraining:
parameters are BERT's. objective.base_objective may be any task or masked objective;
named entity recognition uses objective.branch_text=tail.

Look at: the three controls with the same seeds: objective.branches=0 (no graph),
objective.graph=shuffled (false triples of the same lengths), and objective.visible=all
with objective.positions=flat (no visible matrix). Users found no gain over the first.

Departs (docs/fidelity.md has the values): objective.branch_rate; words of the text;
triples of a word.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.data.corpus = "docstrings"
    config.objective.name = "kbert"
    config.objective.base_objective = "sequence_classification"
    config.model.token_types = 2
    config.train.update(steps=20 if size == "tiny" else 200, eval_every=50)
    config.optimizer.update(learning_rate=3e-4, warmup_steps=2)
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=21_128, length=256)
        config.train.update(steps=1500, batch=32)
        config.optimizer.update(learning_rate=2e-5, warmup_steps=150)
    return config
