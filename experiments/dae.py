"""Denoising autoencoding (T5, Raffel et al. 2020): 15 % hidden, in spans of mean 3.

palimpsest train --config=experiments/dae.py --workdir=runs/dae

Expected: valid/loss 5.76 after 300 steps on 12 M tokens of English Wikipedia, with the
default keys.
"""

from ml_collections import ConfigDict

from research.config import base


def get_config() -> ConfigDict:
    config = base.get_config()
    config.objective.name = "dae"
    config.model.norm = "rmsnorm"
    config.model.position = "t5"
    config.model.activation = "relu"
    config.model.bias = False
    config.model.init = "t5"
    return config
