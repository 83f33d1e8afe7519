"""GPT (Radford et al. 2018): a causal language model of contiguous text.

palimpsest train --config=experiments/gpt.py:tiny --workdir=runs/gpt

Each token of a row is a target, predicted from the tokens before it.

Look at: valid/lm compared with experiments/gpt2.py, which differs in the placement of
norms, in the initialisation of residuals and in byte-level pieces; with warm-up the gap
closes.

Steps are those of 100 epochs of BooksCorpus as ELECTRA counts them
(flops_computation.py).

Departs (docs/fidelity.md has the values): dropout of embeddings; start of a row; text.
"""

from research.config import base

SIZES = ("tiny", "small", "base")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.data.update(vocabulary="bpe", normalizer="lower")
    config.objective.name = "lm"
    config.model.update(
        norm_placement="post", embedding_norm="never", norm_epsilon=1e-5
    )
    config.model.update(activation="gelu_tanh", dropout=0.1)
    config.optimizer.update(name="adamw", beta2=0.999, epsilon=1e-8, weight_decay=0.01)
    config.optimizer.epsilon_place = "before"
    config.optimizer.update(schedule="cosine", decay_from="start")
    if size in base.PUBLISHED:
        config.data.vocabulary_size = 40_478
        config.train.update(steps=1_921_600, batch=64)
        config.optimizer.update(learning_rate=2.5e-4, warmup_steps=2000)
    return config
