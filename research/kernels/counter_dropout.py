"""Dropout of probabilities by a counter: the same in any order of queries and keys.

Whether a pair is kept is a hash of its row and head's seed and of the two indices, so
the forward and backward kernels, and any tiles, agree without a mask in memory.
"""

# B batch, H heads

import jax
import jax.numpy as jnp

KEPT_BITS = 24
"""Of a hash are compared with the rate."""


def dropout_seeds(key: jax.Array, rows: int, heads: int) -> jax.Array:
    """[B, H] int32: a seed for each row and head, of a random key."""
    bits = jax.random.bits(key, (rows, heads), jnp.uint32)
    return jax.lax.bitcast_convert_type(bits, jnp.int32)


def dropout_factor(
    seed: jax.Array, query_index: jax.Array, key_index: jax.Array, rate: float
) -> jax.Array:
    """float32: 0 at a fraction `rate` of pairs, 1 / (1 - rate) at the others.

    Args:
      seed, query_index, key_index: int32 arrays that broadcast against each other.
    """
    query = _mix(query_index * _signed(0x9E3779B1) + seed)
    key = _mix(key_index * _signed(0x85EBCA77) + _signed(0xC2B2AE3D))
    bits = _shift_right(_mix(query + key), 32 - KEPT_BITS)
    return jnp.where(bits >= round(rate * 2**KEPT_BITS), 1 / (1 - rate), 0.0)


def _mix(bits):
    """MurmurHash3's finaliser of 32 bits (Appleby 2011, fmix32)."""
    bits ^= _shift_right(bits, 16)
    bits *= _signed(0x85EBCA6B)
    bits ^= _shift_right(bits, 13)
    bits *= _signed(0xC2B2AE35)
    return bits ^ _shift_right(bits, 16)


def _shift_right(bits, count):
    """The bits of an int32 moved right, zeros behind them."""
    return (bits >> count) & (2 ** (32 - count) - 1)


def _signed(constant: int) -> int:
    """The number with these 32 bits as an int32."""
    return constant - 2**32 if constant >= 2**31 else constant
