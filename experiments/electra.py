"""Replaced token detection (ELECTRA, Clark et al. 2020): generator and discriminator.

python -m launch.train --config=experiments/electra.py --workdir=runs/electra
"""

from ml_collections import ConfigDict

from experiments import base


def get_config() -> ConfigDict:
    config = base.get_config()
    config.objective.name = "electra"
    return config
