"""InfoWord (Kong et al. 2020): InfoNCE between a sentence and its masked n-gram.

palimpsest train --config=experiments/infoword.py:tiny --workdir=runs/infoword

One n-gram of 1 to 5 tokens of each text is masked. The class token's state of the
remaining text scores that n-gram, encoded on its own, against those of the other
documents of the batch. In addition, 15 % of the tokens are masked and predicted. A
batch cannot be split (train.accumulate is 1).

Look at: train/infonce against log(batch), with a larger train.batch; objective.coef=0,
the objective without n-grams; objective.negatives=1000, which scores masked tokens
against others of the batch, as the paper scores them against samples (BERT-NCE).

The paper does not give the weights of the two losses; unspecified values are BERT's.

Departs (docs/fidelity.md has the values): model.token_types; data.dupe_factor; masked
tokens; passes; negatives of an n-gram.
"""

from experiments import bert
from research.config import base

SIZES = ("tiny", "small", "base", "large")


def get_config(size: str = "small"):
    config = base.get_config(size)
    bert.use_bert_settings(config)
    config.objective.name = "infoword"
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 30_522
        config.train.update(steps=1_000_000, batch=256)
        config.optimizer.update(learning_rate=1e-4, warmup_steps=10_000)
    return config
