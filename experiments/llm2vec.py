"""LLM2Vec's first step (BehnamGhader et al. 2024): masked next tokens from a causal LM.

palimpsest train --config=experiments/llm2vec.py --workdir=runs/both \\
    --config.train.init_from=runs/lm

A causal model reads both sides: a fifth of the tokens is masked, and the state before
each predicts it, as its readout is used to. All parameters are trained, where LLM2Vec
trains low-rank differences of them, and the mask is a token of its own, there "_". The
second step is experiments/simcse.py.

Look at: the tags and classes that both runs learn after the same steps of fine-tuning.
"""

from research.config import base

SIZES = ("tiny", "small")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.objective.update(name="mlm", predict_at="previous", format="shifted")
    config.objective.rate = 0.2
    config.model.output_head = "table"
    config.optimizer.learning_rate = 1e-4
    return config
