"""KnowBERT (Peters et al. 2019): BERT that links mentions between two layers.

    palimpsest link --graph=train.triples --names=names.tsv --texts=wiki.jsonl \
        --to=linked --name-end=", " --width=200
    palimpsest train --config=experiments/knowbert.py:tiny --workdir=runs/linker \
        --config.data.corpus=linked/texts.linked \
        --config.objective.entities=linked/entities.npz \
        --config.objective.mlm_coef=0 --config.optimizer.frozen=token,embeddings,stack
    palimpsest train --config=experiments/knowbert.py:tiny --workdir=runs/both \
        --config.train.init_from=runs/linker --config.data.corpus=linked/texts.linked \
        --config.objective.entities=linked/entities.npz

The first run is stage one, which trains only the linker; the second trains all. A
mention's vector scores its candidate entities; the words of the text attend to their
weighted sum. A mention with a masked token has the mask's candidates, which do not
reveal the word.

Look at: valid/link_accuracy; valid/mlm against experiments/bert.py on the same text,
and against the control objective.graph=shuffled.

Base starts from BERT's parameters (train.init_from), as in the paper.

Departs (docs/fidelity.md has the values): optimizer.learning_rate; right candidates.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.data.format = "linked"
    config.objective.name = "knowbert"
    masks = {"format": "segment_pair", "sentence_task": "nsp", "random_tokens": "all"}
    config.objective.update(base_objective="mlm", base=masks)
    config.model.update(network="kar", token_types=2)
    config.model.link_after = config.model.layers - 1
    if size in base.PUBLISHED:
        config.data.update(vocabulary_size=30_522)
        config.model.link_after = 10
        config.train.update(steps=500_000, batch=32)
        config.optimizer.update(learning_rate=2e-5, warmup_steps=10_000)
    return config
