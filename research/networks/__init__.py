"""The networks, and how they are bound to parameters; only this folder imports flax."""

from research.networks.layers.adaptive import AdaptiveReadout
from research.networks.layers.features import FEATURES
from research.networks.layers.heads import HeadSpec, Readout
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
from research.networks.modules.options import Options, options_of_run
from research.networks.modules.transformer import Transformer

__all__ = [
    "FEATURES",
    "AdaptiveReadout",
    "Encoded",
    "HeadSpec",
    "Options",
    "Readout",
    "Transformer",
    "apply",
    "constrain",
    "init",
    "init_with_output",
    "layer_depths",
    "logical_axes",
    "logical_rules",
    "options_of_run",
    "unbox",
]
