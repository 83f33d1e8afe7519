"""Heads with few values, and the readout of spans from their boundaries."""

# B batch, K scored positions, D width, E embedding width, V rows with padding

import dataclasses
from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.networks.readouts.softmax import make_readout
from research.networks.shared.activations import ACTIVATIONS
from research.networks.shared.dense import (
    Dense,
    Module,
    Norm,
    constant,
    dropout,
    normal,
)
from research.networks.shared.embeddings import lookup
from research.networks.shared.options import Options

HEAD_ACTIVATIONS = {name: each.apply for name, each in ACTIVATIONS.items()}
HEAD_ACTIVATIONS |= {"tanh": jnp.tanh, "identity": lambda x: x}
"""Activations that a head's hidden layer may have."""

OFFSET_WIDTH = 200
"""Width of the offset embeddings (Joshi et al. 2020, section 4.2)."""


@dataclasses.dataclass(frozen=True)
class HeadSpec:
    """The layers of a named head; an int n stands for HeadSpec(n).

    BERT's sentence head (pooler, then a dense layer) is HeadSpec(2, "tanh"); a linear
    head is HeadSpec(n, "none"). All heads with tanh and no width share the network's
    pooler, so that fine-tuning starts from the pretrained pooler (google-research/bert,
    modeling.py, BertModel). Heads for pretraining have no dropout.

    Raises:
      ValueError: the activation is unknown, or a size is too small.
    """

    size: int  # output values; 0: model.width
    activation: str = ""  # of the hidden layer; "": model.activation; none: no hidden
    # layer; tanh: it is the pooler, unless `hidden` is given
    hidden: int = 0  # width of the hidden layer; 0: model.width
    dropout: bool = False  # before the last layer, at rate model.head_dropout, and
    # before a hidden one, at rate model.head_input_dropout
    norm: bool = False  # after the activation of the hidden layer
    input_norm: bool = False  # before the hidden layer (DeBERTaV3)
    standardize: bool = False  # values before and after the hidden layer are scaled to
    # mean 0 and variance 1, and layers are initialised as PyTorch's (BabyLM's pipeline,
    # finetune/classifier_model.py)
    shares_pooler: bool = True  # with tanh; False: the head has a new hidden layer
    bias: bool | None = None  # of the last layer; None: as model.bias

    @property
    def is_pooled(self) -> bool:
        return self.activation == "tanh" and self.shares_pooler and not self.hidden

    def __post_init__(self):
        legal = ("", "none", *HEAD_ACTIVATIONS)
        if self.activation not in legal:
            raise ValueError(
                f"activation must be one of {legal}, not {self.activation!r}"
            )
        if self.size < 0 or self.hidden < 0:
            raise ValueError(
                f"size is {self.size} and hidden {self.hidden}: both must be at least 0"
            )


class Head(Module):
    """A head with n values per state: dense, activation, dense.

    Attributes:
      pooler: the network's dense layer before tanh.
    """

    options: Options
    spec: HeadSpec
    pooler: nn.Module

    @nn.compact
    def __call__(self, states):
        """Float32 [..., n] of states [..., any width]."""
        options, spec = self.options, self.spec
        axes = ("embed", None)
        x = states
        if spec.standardize:  # uniform values, also of biases, as with this init
            options = dataclasses.replace(options, init="xlm")
            x = _standardized(x)
        if spec.input_norm:
            x = Norm(options, name="input_norm")(x)
        if spec.dropout and spec.activation != "none":
            x = dropout(self, x, "head_input")
        if spec.is_pooled:
            x = jnp.tanh(self.pooler(x))
        elif spec.activation != "none":
            x = Dense(options, spec.hidden or options.width, axes, name="dense")(x)
            x = HEAD_ACTIVATIONS[spec.activation or options.activation](x)
        if spec.norm:
            x = Norm(options, name="norm")(x)
        if spec.standardize:
            x = _standardized(x)
        if spec.dropout:
            x = dropout(self, x, "head")
        out = Dense(
            options,
            spec.size or options.width,
            axes,
            name="out",
            unspecified=True,
            bias=spec.bias,
        )
        return out(x).astype(jnp.float32)


def _standardized(x: jax.Array) -> jax.Array:
    """LayerNorm without parameters, in float32."""
    y = x.astype(jnp.float32)
    y = y - jnp.mean(y, axis=-1, keepdims=True)
    mean_square = jnp.mean(y * y, axis=-1, keepdims=True)
    return (y * jax.lax.rsqrt(mean_square + 1e-5)).astype(x.dtype)


def make_heads(
    options: Options, heads: Mapping[str, int | HeadSpec] | tuple
) -> tuple[nn.Module, dict[str, Head]]:
    """The pooler and the named heads of a network, for use in its `setup`."""
    pooler = Dense(options, options.width, ("embed", None), name="pooler")
    specs = {
        name: HeadSpec(spec) if isinstance(spec, int) else spec
        for name, spec in dict(heads).items()
    }
    return pooler, {
        name: Head(options, spec, pooler, name=f"head_{name}")
        for name, spec in specs.items()
    }


class BoundaryHead(Module):
    """SpanBERT's boundary objective: predicts a token from the states around its span.

    Two layers (dense, activation, norm) read both states and an embedding of the
    token's offset in the span; the token table (a new one if embeddings are not tied)
    and a bias follow (Joshi et al. 2020, section 3.2; the released code).

    Attributes:
      size: entries of the vocabulary.
      offsets: number of offsets that have an embedding.
    """

    options: Options
    size: int
    offsets: int

    @nn.compact
    def __call__(self, left_BKD, right_BKD, offset_BK, token_table_VE):
        """The readout [B, K] of the tokens at offsets in 0..offsets - 1."""
        options, table_VE = self.options, token_table_VE
        num_rows, width = table_VE.shape
        init = normal(options, 0.02, None, None)
        offset_table = self.param("offset", init, (self.offsets, OFFSET_WIDTH))
        offset = lookup(offset_table, offset_BK).astype(left_BKD.dtype)
        x = jnp.concatenate([left_BKD, right_BKD, offset], axis=-1)
        activation, axes = ACTIVATIONS[options.activation].apply, (None, "embed")
        x = Dense(options, options.width, axes, name="first")(x)
        x = Norm(options, name="first_norm")(activation(x))
        x = Dense(options, width, axes[::-1], name="second")(x)
        x = Norm(options, name="second_norm")(activation(x))
        if not options.tie_embeddings:
            init = normal(options, 0.02, "vocab", "embed")
            table_VE = self.param("embedding", init, table_VE.shape)
        bias_V = self.param("bias", constant(0.0, "vocab"), (num_rows,))
        return make_readout(options, x, table_VE, bias_V, self.size)
