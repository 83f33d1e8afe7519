"""The networks, and how they are bound to parameters; only this folder imports flax."""

from research.models.electra import TIES, Pair, Twin
from research.models.encoder_decoder import EncoderDecoder, Memory
from research.models.flax_bridge import (
    apply,
    axes,
    constrain,
    depths,
    init,
    logical_rules,
    unbox,
)
from research.models.layers.heads import HeadSpec, Readout
from research.models.merge import merged
from research.models.options import Options
from research.models.transformer import Transformer

__all__ = [
    "TIES",
    "EncoderDecoder",
    "HeadSpec",
    "Memory",
    "Options",
    "Pair",
    "Readout",
    "Transformer",
    "Twin",
    "apply",
    "axes",
    "constrain",
    "depths",
    "init",
    "logical_rules",
    "merged",
    "unbox",
]
