"""Attention by JAX's function: cuDNN's kernel on a GPU, XLA's products elsewhere.

The mask is an array [B, 1, L, M], so every pattern and packed rows are supported; on a
GPU no [B, H, L, M] array exists. cuDNN's kernel does not support relative terms, nor
dropout through JAX's interface, and a bias by position would be a [B, H, L, M] array.
"""

# B batch, L queries, M keys, H heads, K head width, P scored positions

from typing import NamedTuple

import jax
import jax.numpy as jnp

from research.contract.errors import UserError
from research.networks.shared.dense_attention import (
    AttentionInputs,
    attention_mask,
)


class LibraryMask(NamedTuple):
    """The mask in the format of `jax.nn.dot_product_attention`."""

    mask: jax.Array  # [B, 1, L, M] bool
    causal: bool  # query l attends to no key after l, so these tiles are skipped
    implementation: str  # xla | cudnn

    def at(self, scored_BP: jax.Array) -> "LibraryMask":
        """The mask for only the scored queries."""
        index = scored_BP[:, None, :, None]
        mask = jnp.take_along_axis(self.mask, index, axis=2, mode="clip")
        return self._replace(mask=mask, causal=False)

    def attend(
        self, query_BLHK: jax.Array, key_BMHK: jax.Array, value_BMHK: jax.Array
    ) -> jax.Array:
        """[B, L, H, K]: softmax attention; a query without keys outputs 0.

        Args:
          query_BLHK: already scaled.

        Raises:
          UserError: cuDNN has no kernel for this head width.
        """
        num_queries, mask = query_BLHK.shape[1], self.mask
        if self.implementation == "cudnn":
            query_BLHK = _make_even(query_BLHK, 1)
            key_BMHK, value_BMHK = (_make_even(x, 1) for x in (key_BMHK, value_BMHK))
            mask = _make_even(mask, 2, 3)
        try:
            out_BLHK = jax.nn.dot_product_attention(
                query_BLHK,
                key_BMHK,
                value_BMHK,
                mask=mask,
                scale=1.0,
                is_causal=self.causal,
                implementation=self.implementation,
            )
        except NotImplementedError as error:
            raise UserError(
                f"model.attention library: {error}; set model.attention=dense"
            ) from error
        has_keys_BLH1 = jnp.any(self.mask, axis=-1)[:, 0, :, None, None]
        return jnp.where(has_keys_BLH1, out_BLHK[:, :num_queries], 0)


def _make_even(x: jax.Array, *axes: int) -> jax.Array:
    """x with one more zero at the end of axes of odd length.

    cuDNN's gradient with a mask does not support odd lengths.
    """
    return jnp.pad(x, [(0, x.shape[n] % 2 * (n in axes)) for n in range(x.ndim)])


def library_mask(inputs: AttentionInputs, *, implementation: str) -> LibraryMask:
    """The mask of all queries and keys, the same in every layer.

    Args:
      implementation: xla | cudnn.
    """
    assert inputs.mems_segment is None, "mems need relative positions"
    assert inputs.bias is None, "a bias of positions is refused"
    # XLA would make a second mask.
    causal = inputs.pattern == "causal" and implementation == "cudnn"
    return LibraryMask(attention_mask(inputs)[:, None], causal, implementation)
