"""A language model that learns from a frozen one (Hinton et al. 2015).

palimpsest train --config=experiments/lm.py --workdir=runs/lm
palimpsest train --config=experiments/distilled.py --workdir=runs/distilled
"""

from research.config import base


def get_config():
    config = base.get_config()
    config.model.layers = 2
    config.data.vocabulary = "runs/lm"
    config.objective.update(name="distilled", teacher="runs/lm")
    return config
