"""The networks, and how they are bound to parameters; only this folder imports flax."""

from research.models.bind import apply, axes, constrain, init, logical_rules, unbox
from research.models.encdec import EncoderDecoder, Memory
from research.models.merged import merged
from research.models.options import Options
from research.models.pair import TIES, Pair
from research.models.transformer import Readout, Transformer

__all__ = [
    "TIES",
    "EncoderDecoder",
    "Memory",
    "Options",
    "Pair",
    "Readout",
    "Transformer",
    "apply",
    "axes",
    "constrain",
    "init",
    "logical_rules",
    "merged",
    "unbox",
]
