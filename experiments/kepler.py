"""KEPLER (Wang et al. 2021): masked tokens, and triples from entity descriptions.

    palimpsest train --config=experiments/kepler.py:tiny --workdir=runs/kepler \
        --config.data.corpus=wiki.jsonl --config.data.lexicon=train.triples \
        --config.data.lexicon_texts=texts.tsv

texts.tsv has lines name<TAB>text of the graph's entities and relations. An entity is
the state at bos of its text; TransE's distance of a triple is trained to be smaller
than those of two negatives. One triple is read with each row of text.

Look at: valid/ke_accuracy; valid/mlm against experiments/roberta.py on the same text
and steps, which is the fair baseline (the paper: TACRED 72.0 against 70.2). The paper's
KEPLER-KE is objective.mlm_coef=0. experiments/studies/kepler_links.py ranks links of
entities that training has not seen.

Base starts from RoBERTa's parameters (train.init_from), as in the paper.

Departs (docs/fidelity.md has the values): objective.description; initial values of
relations.
"""

from experiments import roberta
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = roberta.get_config(size)
    fields = ("format", "rounding", "candidates")
    masks = {name: config.objective[name] for name in fields}
    for name in fields:
        del config.objective[name]
    config.objective.update(name="kepler", base_objective="mlm", base=masks)
    config.objective.description = 32 if size == "tiny" else 64
    if size in base.PUBLISHED:
        config.train.update(steps=125_000, batch=12_288)
        config.optimizer.update(learning_rate=6e-4, warmup_steps=10_000)
    return config
