"""The networks, and how they are bound to parameters; only this folder imports flax.

Each module of this folder is a network that `model.network` chooses; its packages are
what networks are made of.
"""

from typing import Any

from research.networks.layers.adaptive import AdaptiveReadout
from research.networks.layers.features import FEATURES
from research.networks.layers.heads import HeadSpec, Readout
from research.networks.layers.options import Options
from research.networks.modules.blocks import Encoded
from research.networks.modules.flax_bridge import (
    apply,
    constrain,
    init,
    init_with_output,
    layer_depths,
    logical_axes,
    logical_rules,
    unbox,
)
from research.networks.modules.transformer import Transformer
from research.parts import Folder

FOLDER = Folder("research.networks", "Network")


def from_config(section: Any) -> Options:
    """The network that the `model` section of a config describes.

    Raises:
      UserError: two of its values are incompatible.
    """
    return FOLDER.make(section, "network")


__all__ = [
    "FEATURES",
    "FOLDER",
    "AdaptiveReadout",
    "Encoded",
    "HeadSpec",
    "Options",
    "Readout",
    "Transformer",
    "apply",
    "constrain",
    "from_config",
    "init",
    "init_with_output",
    "layer_depths",
    "logical_axes",
    "logical_rules",
    "unbox",
]
