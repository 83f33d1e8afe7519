"""StructBERT (Wang et al. 2020): BERT that also orders words and sentences.

palimpsest train --config=experiments/structbert.py:tiny --workdir=runs/structbert

15 % of the tokens are masked as in BERT; of the others 5 % are shuffled in trigrams and
predicted at their positions, with equal weight. Of two segments the second follows,
precedes, or is from another document, in a third of the rows each.

Look at: valid/structural_accuracy above 1/3; objective.shuffle_rate=0 and
objective.sentence_task=nsp are the paper's ablations.

There is no official code for pretraining: the optimizer is BERT's, with the paper's
warm-up of a tenth of the steps.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base", "large")


def get_config(size: str = "small"):
    config = bert.get_config(size)
    config.data.dupe_factor = 0
    config.objective.update(shuffle_rate=0.05, sentence_task="structural")
    if size in base.PUBLISHED:
        config.optimizer.warmup_steps = 100_000
        config.train.phases = []
    return config
