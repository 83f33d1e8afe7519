"""A masked language model by a network without attention.

palimpsest train --config=experiments/means.py --workdir=runs/means
"""

from research.config import base


def get_config():
    config = base.get_config()
    config.model.update(network="means", layers=2)
    config.objective.name = "mlm"
    return config
