"""The networks, and how they are bound to parameters; only this folder imports flax."""

from research.models.blocks import Encoded
from research.models.flax_bridge import (
    apply,
    constrain,
    init,
    init_with_output,
    layer_depths,
    logical_axes,
    logical_rules,
    unbox,
)
from research.models.layers.adaptive import AdaptiveReadout
from research.models.layers.features import FEATURES
from research.models.layers.heads import HeadSpec, Readout
from research.models.options import Options, options_of_run
from research.models.transformer import Transformer

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
