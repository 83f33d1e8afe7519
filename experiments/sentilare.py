"""SentiLARE (Ke et al. 2020): RoBERTa with the polarity of words, as input and target.

    palimpsest train --config=experiments/sentilare.py:tiny --workdir=runs/senti \
        --config.data.corpus=reviews.jsonl --config.data.lexicon=polarity.tsv

polarity.tsv has lines word<TAB>positive and word<TAB>negative; a review has its stars
as label. Words with a polarity are masked twice as often. Each position reads its
word's polarity and, in four of five reviews, the label; the other reviews predict it.
Tasks also read polarities, without a label:
objective.base_objective=sequence_classification.

The paper's polarities are from SentiWordNet, by part of speech and glosses; here they
are a lexicon's, and parts of speech are read if texts have tags (objective.pos=tags).

Look at: valid/polarity_accuracy and valid/sentence_accuracy; experiments/roberta.py on
the same text and steps.

Base starts from RoBERTa's parameters (train.init_from), as in the paper.

Departs (docs/fidelity.md has the values): objective.pos; random words; tables of heads.
"""

from experiments import roberta
from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = roberta.get_config(size)
    for name in ("format", "rounding", "candidates"):
        del config.objective[name]
    config.objective.update(name="sentilare", base_objective="mlm")
    config.optimizer.update(clip_norm=1.0)
    if size in base.PUBLISHED:
        config.data.length = 128
        config.train.update(steps=17_000, batch=400)
        config.optimizer.update(learning_rate=5e-5, warmup_steps=1_700)
    return config
