"""StructBERT (Wang et al. 2020): BERT that also puts words and sentences in order.

python -m launch.train --config=experiments/structbert.py:tiny --workdir=runs/structbert

Hidden are 15 % of the tokens as in BERT; of the others 5 % are shuffled in trigrams and
asked for at their places, with equal weight. Of two segments the second comes next,
before, or from another document, in a third of the rows each.

Look at: valid/structural_accuracy above 1/3; objective.shuffle=0 and sentence=nsp are
the paper's ablations.

Departs: all six orders of a trigram are equally likely, also its own; all steps have
one length; the vocabulary is cased where it is trained here.
"""

from experiments import base

SIZES = ("tiny", "small", "base", "large")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "wordpiece"
    config.objective.update(name="mlm", shuffle=0.05, draw="all")
    config.objective.update(format="segment_pair", sentence="structural")
    config.model.update(token_types=2, norm_placement="post", norm_epsilon=1e-12)
    config.model.update(init="truncated", dropout=0.1)
    config.optimizer.update(beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.bias_correction = False
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=1_000_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=100_000)
    return config
