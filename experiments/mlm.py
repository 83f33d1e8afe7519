"""Masked language modelling (BERT, Devlin et al. 2019): 15 % hidden, 80/10/10, dynamic.

python -m launch.train --config=experiments/mlm.py --workdir=runs/mlm

Expected: valid/loss 6.83 after 300 steps on 12 M tokens
of English Wikipedia, as the keys stand.
"""

from ml_collections import ConfigDict

from experiments import base


def get_config() -> ConfigDict:
    config = base.get_config()
    config.objective.name = "mlm"
    return config
