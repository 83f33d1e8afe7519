"""InfoWord (Kong et al. 2020): a sentence tells its own n-gram from those of others.

python -m launch.train --config=experiments/infoword.py:tiny --workdir=runs/infoword

Of each text an n-gram of 1 to 5 tokens is hidden whole. The class token's state of what
is left scores that n-gram, read by itself, against those of the other documents of the
batch. Besides, 15 % of the tokens are hidden and recovered. A batch cannot be split
(train.accumulate stays 1).

Look at: train/infonce beside log(batch), with a larger train.batch; objective.coef=0,
the objective without n-grams; objective.negatives=1000, hidden tokens that are told
from others of the batch, as the paper's are from sampled ones (BERT-NCE).

Departs: tokens are told from the whole vocabulary; one pass hides the n-gram and single
tokens; n-grams of one's own document are no negatives. The weights of the two losses
are ours, and the budget is BERT's.
"""

from experiments import base

SIZES = ("tiny", "small", "base", "large")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.vocabulary = "wordpiece"
    config.objective.name = "infoword"
    config.model.update(norm_placement="post", norm_epsilon=1e-12)
    config.model.update(init="truncated", dropout=0.1)
    config.optimizer.update(beta2=0.999, epsilon=1e-6, weight_decay=0.01)
    config.optimizer.bias_correction = False
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=1_000_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    return config
