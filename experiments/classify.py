"""Fine-tuning from another run's parameters: which module a docstring documents.

The pooler is that of the other run, if it was trained there (BERT, ALBERT).

    python -m launch.train --config=experiments/classify.py --workdir=runs/classify \
        --config.train.init_from=runs/mlm
"""

from ml_collections import ConfigDict

from experiments import base


def get_config() -> ConfigDict:
    config = base.get_config()
    config.objective.name = "classify"
    config.data.corpus = "docstrings"
    config.train.steps = 200
    config.train.eval_every = 50
    config.optimizer.learning_rate = 3e-4
    config.optimizer.warmup_steps = 20
    return config
