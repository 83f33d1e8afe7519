"""Prefix language modelling: the rest of a text from its start (Raffel 2020, 3.2).

palimpsest train --config=experiments/prefix.py --workdir=runs/prefix
"""

from research.config import base


def get_config():
    config = base.get_config()
    config.objective.name = "prefix"
    return config
