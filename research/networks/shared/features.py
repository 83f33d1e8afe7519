"""Features: states of several layers, concatenated or mixed, then a BiLSTM."""

# B batch, L length, N blocks, D width, F width of the features

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.contract.batch import FEATURE
from research.networks.shared.dense import Module, constant
from research.networks.shared.options import Options

OF_SEVERAL_LAYERS = ("concat", "mix")
OF_VECTORS = ("vectors", "vectors_last")
FEATURES = ("last", *OF_SEVERAL_LAYERS, *OF_VECTORS)
"""The states that fine-tuning heads read.

last    those of the last block.
concat  those of the last four blocks (or of all, if there are fewer), concatenated: the
        best choice of Devlin et al. 2019, table 7.
mix     scale x the sum over embeddings and blocks of softmax(layers)_n x state_n, with
        learned `layers`, initially equal, and `scale`, initially 1 (Peters et al. 2018,
        equation 1; allennlp/modules/scalar_mix.py, without its norm of layers).

vectors       only the vectors of tokens (`batch.FEATURE`), nothing of the network.
vectors_last  these, then the states of the last block: [GloVe(w); CoVe(w)] (McCann et
              al. 2017, section 4).
"""

VIEWS = "views"
"""One more, for a text that is read from both ends: the states of each direction alone,
which see one side of the text (forward first), then those of layers that read both, if
any; `model.width` values each."""

MAX_CONCAT = 4


class FeatureLayers(Module):
    """The features of a row, and a BiLSTM on top of them.

    A block's states are the input of the next block: with norm_placement pre, only the
    states of the last block are normalised.

    Attributes:
      features: one of `FEATURES`.
      lstm_layers: layers of the BiLSTM, with `options.width` units per direction (768
        in Devlin et al. 2019, section 5.3); 0: no BiLSTM. Initialisers are Flax's:
        LeCun's normal, orthogonal for recurrent kernels, 0 for biases.
    """

    options: Options
    features: str
    lstm_layers: int

    @nn.compact
    def __call__(
        self,
        group: Mapping,
        x_BLD: jax.Array | None = None,
        inputs_NBLD: jax.Array | None = None,
    ) -> jax.Array:
        """[B, L, F]: the features of a group of arrays [B, L].

        They are made of the last states, the inputs of all blocks and the vectors of
        the group, as far as the features need them.

        Padding must be at the end of rows; the BiLSTM does not read it.
        """
        x, dtype = x_BLD, self.options.dtype
        if self.features == "concat":
            blocks = [*inputs_NBLD[1:], x_BLD]
            x = jnp.concatenate(blocks[-MAX_CONCAT:], axis=-1)
        elif self.features == "mix":
            x = self._mix(jnp.concatenate([inputs_NBLD, x_BLD[None]]))
        elif self.features in OF_VECTORS:
            own = [] if self.features == "vectors" else [x_BLD]
            x = jnp.concatenate([group[FEATURE].astype(dtype), *own], axis=-1)
        size_B = jnp.sum(group["segment"] > 0, axis=1)
        for number in range(self.lstm_layers):
            forward = nn.RNN(self._cell(), name=f"forward_{number}")
            backward = nn.RNN(
                self._cell(), reverse=True, keep_order=True, name=f"backward_{number}"
            )
            both = [lstm(x, seq_lengths=size_B) for lstm in (forward, backward)]
            x = jnp.concatenate(both, axis=-1).astype(dtype)
        return x

    def _mix(self, states_NBLD):
        """ELMo's scalar mix, in float32."""
        layers_N = self.param("layers", constant(0.0, None), (len(states_NBLD),))
        scale = self.param("scale", constant(1.0), ())
        weight_N = scale * jax.nn.softmax(layers_N)
        x = jnp.einsum("n,nbld->bld", weight_N, states_NBLD.astype(jnp.float32))
        return x.astype(states_NBLD.dtype)

    def _cell(self):
        def replicated(init, dims):
            return nn.with_logical_partitioning(init, (None,) * dims)

        return nn.OptimizedLSTMCell(
            self.options.width,
            kernel_init=replicated(nn.initializers.lecun_normal(), 2),
            recurrent_kernel_init=replicated(nn.initializers.orthogonal(), 2),
            bias_init=replicated(nn.initializers.zeros_init(), 1),
            parent=None,
        )
