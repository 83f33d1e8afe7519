"""The networks, and how they are bound to parameters; only this folder imports flax."""

from research.models.blocks import Encoded
from research.models.electra import (
    TIE_CHOICES,
    BiLM,
    GeneratorDiscriminator,
    generator_options,
)
from research.models.encoder_decoder import EncoderDecoder
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
from research.models.merge import merge_networks
from research.models.options import Options, options_of_run
from research.models.transformer import Transformer

__all__ = [
    "FEATURES",
    "TIE_CHOICES",
    "AdaptiveReadout",
    "BiLM",
    "Encoded",
    "EncoderDecoder",
    "GeneratorDiscriminator",
    "HeadSpec",
    "Options",
    "Readout",
    "Transformer",
    "apply",
    "constrain",
    "generator_options",
    "init",
    "init_with_output",
    "layer_depths",
    "logical_axes",
    "logical_rules",
    "merge_networks",
    "options_of_run",
    "unbox",
]
