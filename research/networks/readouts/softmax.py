"""One softmax over the rows of a table: the token table, or one of its own."""

# B batch, K scored positions, D width, E embedding width, V rows with padding

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.networks import readouts
from research.networks.readouts import Score
from research.networks.shared.activations import ACTIVATIONS
from research.networks.shared.dense import (
    Dense,
    Module,
    Norm,
    bias_init,
    dropout,
    normal,
    uniform,
)
from research.networks.shared.dense_attention import HIDDEN
from research.networks.shared.options import Options


@dataclasses.dataclass(frozen=True)
class Output(readouts.Output):
    """The readout of all networks that choose no other."""

    def head(self, options, size, token, transform):
        return VocabHead(options, size, transform)

    def readout(self, head, states, token):
        return head(states, token.table_VE)


class Readout(NamedTuple):
    """The factors of vocabulary logits, which are feature @ table.T + bias."""

    feature: jax.Array  # [..., E], in the dtype of the products' operands
    table: jax.Array  # [V, E] float32
    bias: jax.Array  # [V] float32, -1e9 at rows past `size`
    size: int  # number of rows of the table in the softmax

    def logits(self) -> jax.Array:
        """Float32 [B, K, V] of a readout at [B, K]."""
        # The table is the left operand. XLA:CPU would first transpose a right one,
        # which for few positions adds half the time of the product.
        logits_VBK = jnp.einsum(
            "ve,bke->vbk",
            self.table.astype(self.feature.dtype),
            self.feature,
            preferred_element_type=jnp.float32,
        )
        bias_V = self.bias.astype(jnp.float32)
        logits_BKV = jnp.moveaxis(logits_VBK, 0, -1) + bias_V[None, None]
        return logits_BKV[..., : self.size]

    def loss(
        self, score: Score, options: Any, *answers: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """See `OtherReadout`; options are `SoftmaxOptions`."""
        options = options._replace(size=self.size)
        return score(options, self.feature, self.table, self.bias, *answers)


class VocabHead(Module):
    """The readout over the vocabulary.

    Attributes:
      size: entries of the vocabulary.
      transform: whether BERT's layers (dense, activation, norm) come before the table
        and a bias after it, unless `model.output_head` chooses something else.
      init: the initialiser of a table that is not tied; None: that of `model.init`.
      width: of the table, if it is not tied; 0: that of the token table.
      bias: whether there is a bias after the table, unless `model.output_head` chooses
        something else.
    """

    options: Options
    size: int
    transform: bool = False
    init: Callable | None = None
    width: int = 0
    bias: bool = False

    @nn.compact
    def __call__(self, states, token_table_VE):
        """The readout of states [..., D]; tied embeddings use the token table."""
        options, table_VE = self.options, token_table_VE
        num_rows, width = table_VE.shape
        width = self.width or width
        x, layers = states, options.output_head
        if layers == "auto":
            plain = "bias" if self.bias else "table"
            layers = "transform" if self.transform else plain
        if layers == "transform":
            x = Dense(options, width, ("embed", None), name="dense")(x)
            x = Norm(options, name="norm")(ACTIVATIONS[options.activation].apply(x))
        elif x.shape[-1] != width:
            x = Dense(options, width, ("embed", None), name="project")(x)
        if not options.tie_embeddings:
            std = options.width**-0.5 if options.init == "t5" else 0.02
            init = normal(options, std, "vocab", "embed")
            if options.init == "xlm":
                init = uniform(width**-0.5, "vocab", "embed")
            shape = (num_rows, width)
            table_VE = self.param("embedding", self.init or init, shape)
        elif options.init == "t5":
            x = x * options.width**-0.5
        x = dropout(self, x, "readout")
        bias_V = jnp.zeros(num_rows)
        if layers != "table":
            init = bias_init(options, width, "vocab")
            bias_V = self.param("bias", init, (num_rows,))
        return make_readout(options, x, table_VE, bias_V, self.size)


def make_readout(options, feature, table_VE, bias_V, size):
    """The readout; its softmax leaves out rows that pad the vocabulary of `size`.

    With `model.output_rows` table it includes them: T5's table for 32,100 tokens has
    32,128 rows, all in the softmax (Mesh TensorFlow's transformer.py, where
    `vocab_divisor` is 128).
    """
    feature = feature.astype(options.operand_dtype)
    if options.output_rows == "table":
        return Readout(feature, table_VE, bias_V, len(table_VE))
    bias_V = jnp.where(jnp.arange(len(bias_V)) < size, bias_V, HIDDEN)
    return Readout(feature, table_VE, bias_V, size)
