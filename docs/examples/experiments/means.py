"""A masked language model by a network without attention.

palimpsest train --config=experiments/means.py --workdir=runs/means
"""

from research.config import base

SIZES = ("tiny", "small")


def get_config(size: str = "small"):
    config = base.get_config(size)
    config.model.update(network="means", layers=2)
    config.objective.name = "mlm"
    return config
