"""Losses of word vectors: negative sampling, and softmax over a tree of words."""

# B batch, L centres, T tokens scored (the target and negatives, or nodes), E width,
# M contexts of a block of centres, G centres of a block, S blocks of a row

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from research.contract.batch import Batch
from research.networks import Readout, constrain

BLOCK = 16
"""Centres of a block. Their contexts overlap: one matrix product scores all tokens of
all centres with all contexts of the block (a third of the scores is used at window 5),
and no context is gathered or scattered more than once."""


class Scored(NamedTuple):
    """The rows of the output table that are scored, and their labels."""

    row: jax.Array  # [B, L, T] int32
    sign: jax.Array  # [B, L, T] float32: 1 for yes, -1 for no, 0 for unused


def scored_rows(batch: Batch, target: jax.Array) -> Scored:
    """The target and its negatives, or the nodes of its code, for targets [B, L].

    A negative that equals its target is left out. Bit 0 of a code is yes (word2vec.c).
    """
    if "target_node" in batch:
        code = batch["target_code"]
        sign = jnp.where(code < 0, 0.0, 1.0 - 2.0 * code)
        return Scored(batch["target_node"], sign)
    negative = batch["target_negative"]
    sign = jnp.where(negative == target[..., None], 0.0, -1.0)
    row = jnp.concatenate([target[..., None], negative], axis=-1)
    return Scored(row, jnp.concatenate([jnp.ones_like(sign[..., :1]), sign], axis=-1))


@jax.custom_jvp
def negative_log_sigmoid(x: jax.Array) -> jax.Array:
    """-log sigmoid(x) = log(1 + exp(-x))."""
    return jnp.maximum(-x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@negative_log_sigmoid.defjvp
def _negative_log_sigmoid_jvp(
    primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return negative_log_sigmoid(x), -jax.nn.sigmoid(-x) * dx


def look_up(
    table: jax.Array, bias: jax.Array, row: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Rows [..., E] of an output table, and their biases [...]."""
    names = ("batch", "length", *(None,) * (row.ndim - 1))
    table = constrain(table, "vocab", None)
    found = constrain(jnp.take(table, row, axis=0, mode="clip"), *names)
    return found, jnp.take(bias, row, mode="clip")


def score_alone(feature: jax.Array, readout: Readout, scored: Scored) -> jax.Array:
    """[B, L]: the losses of features [B, L, E], each with its own tokens."""
    _, table, bias = readout[:3]
    out, shift = look_up(table, bias, scored.row)
    logits = jnp.einsum("ble,blte->blt", feature, out.astype(feature.dtype)) + shift
    loss = negative_log_sigmoid(scored.sign * logits.astype(jnp.float32))
    return jnp.sum(jnp.where(scored.sign == 0, 0.0, loss), axis=-1)


def score_windows(
    feature: jax.Array, readout: Readout, scored: Scored, weight_BLJ: jax.Array
) -> jax.Array:
    """The sum of the losses of all pairs of a centre and a context.

    Args:
      feature: [B, L, E] of the contexts.
      scored: of the centres; all contexts of a centre share it.
      weight_BLJ: of each pair, see `word_windows.word_windows`.
    """
    _, table, bias = readout[:3]
    window = weight_BLJ.shape[-1] // 2
    row, sign = (pad_to_blocks(array, window) for array in scored)
    weight_BSGM = band(pad_to_blocks(weight_BLJ, window))
    context = in_blocks(pad_to_blocks(feature, window), window)
    out, shift = look_up(table, bias, row)
    shape = *weight_BSGM.shape[:3], row.shape[-1]
    out = out.astype(feature.dtype).reshape(*shape[:2], -1, feature.shape[-1])
    logits = jnp.einsum("bske,bsme->bskm", out, context)
    logits = lax.optimization_barrier(logits)  # else XLA:CPU computes it in a loop
    logits = logits.reshape(*shape, -1).astype(jnp.float32)
    logits += shift.reshape(shape)[..., None]
    sign = sign.reshape(shape)[..., None]
    loss = jnp.where(sign == 0, 0.0, negative_log_sigmoid(sign * logits))
    return jnp.sum(loss * weight_BSGM[:, :, :, None])


def in_blocks(feature: jax.Array, window: int) -> jax.Array:
    """[B, S, M, E]: the features [B, L, E] of each block and of W around it."""
    size = block_size(window)
    blocks = feature.reshape(len(feature), -1, size, feature.shape[-1])
    before = jnp.pad(blocks[:, :-1, size - window :], ((0, 0), (1, 0), (0, 0), (0, 0)))
    after = jnp.pad(blocks[:, 1:, :window], ((0, 0), (0, 1), (0, 0), (0, 0)))
    return jnp.concatenate([before, blocks, after], axis=2)


def block_size(window: int) -> int:
    """G: large enough that contexts of a block are in it or in an adjacent block."""
    return max(BLOCK, window)


def pad_to_blocks(array: jax.Array, window: int) -> jax.Array:
    """The array [B, L, ...] padded with zeros so that L is a multiple of G."""
    missing = -array.shape[1] % block_size(window)
    return jnp.pad(array, ((0, 0), (0, missing), *((0, 0),) * (array.ndim - 2)))


def band(weight_BLJ: jax.Array) -> jax.Array:
    """[B, S, G, M]: the weights of pairs at their contexts' indices in `in_blocks`."""
    num_rows, length, num = weight_BLJ.shape
    left, right = jnp.split(weight_BLJ, 2, axis=-1)
    own = jnp.zeros_like(weight_BLJ[..., :1])
    whole = jnp.concatenate([left, own, right], axis=-1)
    block = block_size(num // 2)
    size = block + num
    shaped = whole.reshape(num_rows, -1, block, num + 1)
    # Rows that are one longer shift by one each in the flat array: a diagonal.
    padded = jnp.pad(shaped, ((0, 0),) * 3 + ((0, block),))
    flat = padded.reshape(num_rows, length // block, -1)[..., : block * size]
    return flat.reshape(num_rows, length // block, block, size)


def window_sum(feature: jax.Array, weight_BLJ: jax.Array) -> jax.Array:
    """[B, L, E]: the weighted sum of the features [B, L, E] of a centre's contexts."""
    num_rows, length, width = feature.shape
    window = weight_BLJ.shape[-1] // 2
    context = in_blocks(pad_to_blocks(feature, window), window)
    whole = band(pad_to_blocks(weight_BLJ, window)).astype(feature.dtype)
    total = jnp.einsum("bsgm,bsme->bsge", whole, context)
    return total.reshape(num_rows, -1, width)[:, :length]
