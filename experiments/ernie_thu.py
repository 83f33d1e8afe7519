"""ERNIE of Tsinghua (Zhang et al. 2019): BERT with a stream of entities.

    palimpsest link --graph=train.triples --names=names.tsv --texts=wiki.jsonl \
        --to=linked --name-end=", "
    palimpsest train --config=experiments/ernie_thu.py:tiny --workdir=runs/ernie \
        --config.data.corpus=linked/texts.linked \
        --config.objective.entities=linked/entities.npz

The vectors of the entities that a text names, trained by TransE and then frozen, are a
second stream from layer 5 on, mixed with that of the tokens. In addition to BERT's
losses, the states at entities predict these; 5 % of the mentions read another entity
and 15 % none. Texts of a task have entities, too:
objective.base_objective=sequence_classification on linked texts with a label.

Look at: valid/entity_accuracy; and the paper's ablations, objective.coef=0 (-dEA) and
experiments/bert.py on the same text (-entities), and the control
objective.graph=shuffled.

Base starts from BERT's parameters (train.init_from), as in the paper; those of fusion
are new.

Departs (docs/fidelity.md has the values): optimizer.schedule; objective.candidates;
linear layer after the norm of the entity head.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.data.format = "linked"
    config.objective.name = "ernie_thu"
    masks = {"format": "segment_pair", "sentence_task": "nsp", "random_tokens": "all"}
    config.objective.update(base_objective="mlm", base=masks)
    config.model.update(network="fusion", token_types=2)
    config.model.plain_layers = config.model.layers // 2
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=30_522, length=256)
        config.model.plain_layers = 5
        config.train.batch = 512
        config.optimizer.learning_rate = 5e-5
    return config
