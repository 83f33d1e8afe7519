"""Attention by where keys are from a query: Transformer-XL's distances, XLNet's kinds.

A query q at place i has the logits (q + u) . k + (q + v) . W r(i - j) of keys k at
places j, where r(d) are sines and cosines of d (Dai et al. 2019, section 3.3), and with
relative segments (q + b) . s more, where s is one of two vectors: of the query's own
kind, or of another (Yang et al. 2019, section 2.5). The projection W, the biases u, v
and b, and the vectors s are each layer's own. r is not dropped out.

By sin(i - j) = sin i cos j - cos i sin j, and the like, the middle term is a product of
something of the query alone with something of the place j alone. So it is exact for any
positions, and needs no table of distances and no gather of them.
"""

# B batch, L queries, M keys, N remembered keys, H heads, K head width, D width, C kinds

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.models.layers.dense import normal, product
from research.models.layers.positions import angles, rotation
from research.models.options import Options


class Places(NamedTuple):
    """Where queries or keys are, made once for all layers; None: nobody asks."""

    turn: tuple | None = None  # cos, sin [B, L, 1, K / 2] of rotary positions
    wave: jax.Array | None = None  # [B, L, D] cosines, sines of relative positions
    kind: jax.Array | None = None  # [B, L, C] one-hot, of relative segments


def places(
    options: Options, group: Mapping, keys: int | None, remembered: int = 0
) -> tuple[Places, Places]:
    """The places of queries, and of keys: `remembered` ones before the first `keys`.

    Remembered places lie in front of the first place, each a step from the next, as far
    as the second place is from the first: rows that run backwards have them above. They
    are of kind 0.
    """
    position_BL, dtype = group["position"], jnp.dtype(options.dtype)
    query, key = Places(), Places()
    if options.position == "rotary":
        query = query._replace(turn=rotation(position_BL, options.head_width))
        key = key._replace(turn=tuple(angle[:, :keys] for angle in query.turn))
    if options.position == "relative":
        # From the first place on, so that far away a float32 still tells neighbours.
        position_BL = position_BL - position_BL[:, :1]
        step_B1 = position_BL[:, 1:2] if position_BL.shape[1] > 1 else 1 + position_BL
        before_BN = step_B1 * jnp.arange(-remembered, 0)[None]
        position_BM = jnp.concatenate([before_BN, position_BL[:, :keys]], axis=1)
        wave = partial(_wave, width=options.width)
        query = query._replace(wave=wave(position_BL))
        key = key._replace(wave=wave(position_BM).astype(dtype))
    if options.token_type_encoding == "relative":
        kind_BLC = jax.nn.one_hot(group["token_type"], options.token_types, dtype=dtype)
        none_BN = jnp.zeros((len(kind_BLC), remembered), jnp.int32)
        before_BNC = jax.nn.one_hot(none_BN, options.token_types, dtype=dtype)
        kind_BMC = jnp.concatenate([before_BNC, kind_BLC[:, :keys]], axis=1)
        query, key = query._replace(kind=kind_BLC), key._replace(kind=kind_BMC)
    return query, key


def _wave(position_BL, width):
    angle_BLD = angles(position_BL, width // 2)
    return jnp.concatenate([jnp.cos(angle_BLD), jnp.sin(angle_BLD)], axis=-1)


class Relative(nn.Module):
    """The parameters of one layer's relative terms.

    Attributes:
      scale: of all logits.
    """

    options: Options
    scale: float

    @nn.compact
    def __call__(self, query_BLHK, key_BMHK, at: tuple[Places, Places]):
        """What to multiply to have the logits: queries, keys [B, L, H, any], and `far`.

        far: [B, L, H, D] and [B, M, D], whose product comes on top; or None.
        """
        options, query, far = self.options, query_BLHK, None
        if options.position == "relative":
            far = self._far(query_BLHK, at[0].wave), at[1].wave
            query = query + self._bias("content_bias", query.dtype)
        query, key = query * self.scale, key_BMHK
        if options.token_type_encoding == "relative":
            mine_BLHC = self._segments(query_BLHK, at[0].kind)
            kind_BMHC = jnp.broadcast_to(
                at[1].kind[:, :, None], (*key.shape[:3], options.token_types)
            )
            query = jnp.concatenate([query, mine_BLHC], axis=-1)
            key = jnp.concatenate([key, kind_BMHC], axis=-1)
        return query, key, far

    def _bias(self, name, dtype):
        """[1, 1, H, K]: what is added to queries."""
        options = self.options
        bias = self.param(name, normal(options, 0.02, "heads"), (options.width,))
        return bias.astype(dtype).reshape(1, 1, options.heads, options.head_width)

    def _far(self, query_BLHK, wave_BLD):
        """[B, L, H, D]: W^T (q + v), turned by the query's place."""
        options = self.options
        init = normal(options, 0.02, "embed", "heads")
        kernel = self.param("kernel", init, (options.width, options.width))
        kernel_HKD = jnp.moveaxis(
            kernel.reshape(-1, options.heads, options.head_width), 0, 2
        )
        query = query_BLHK + self._bias("position_bias", query_BLHK.dtype)
        by_head = jax.vmap(product, in_axes=(2, 0), out_axes=2)
        both_BLHD = by_head(query * self.scale, kernel_HKD).astype(jnp.float32)
        sine, cosine = jnp.split(both_BLHD, 2, axis=-1)
        cos, sin = jnp.split(wave_BLD[:, :, None], 2, axis=-1)
        turned = (cosine * cos + sine * sin, cosine * sin - sine * cos)
        return jnp.concatenate(turned, axis=-1).astype(query_BLHK.dtype)

    def _segments(self, query_BLHK, kind_BLC):
        """[B, L, H, C]: how much more the logits of keys of each kind are.

        What the other kinds' vector gives to all keys alike, a softmax leaves out.
        """
        options = self.options
        init = normal(options, 0.02, None, "heads")
        vectors = self.param("segment", init, (2, options.width))
        same, other = vectors.astype(query_BLHK.dtype)
        more_HK = (same - other).reshape(options.heads, options.head_width)
        query = query_BLHK + self._bias("segment_bias", query_BLHK.dtype)
        more_BLH = jnp.einsum("blhk,hk->blh", query * self.scale, more_HK)
        return more_BLH[..., None] * kind_BLC[:, :, None]
