"""LLM2Vec's first step (BehnamGhader et al. 2024): masked next tokens from a causal LM.

palimpsest train --config=experiments/llm2vec.py --workdir=runs/both \\
    --config.train.init_from=runs/lm

A causal model gets bidirectional attention: a fifth of the tokens is masked, and each
is predicted from the state before it, as in pretraining. All parameters are trained,
while LLM2Vec trains low-rank differences, and the mask is a special token, there "_".
The second step is experiments/simcse.py.

Look at: accuracy on tags and classes of both runs after equally many tuning steps.
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
