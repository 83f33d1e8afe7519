"""Counter-based dropout: a hash of a value's row and column decides if it is kept.

So attention kernels drop the same values as each other and as dense attention, whatever
the order of queries and keys, and no mask is stored. Elsewhere it is used because a
32-bit hash is much cheaper than JAX's random numbers, which on a CPU took an eighth of
a small step.
"""

import jax
import jax.numpy as jnp

KEPT_BITS = 24
"""Number of a hash's highest bits that are compared with the rate."""


def dropout_seeds(key: jax.Array, *shape: int) -> jax.Array:
    """int32 array of a shape: a seed for each matrix of values, from a random key."""
    bits = jax.random.bits(key, shape, jnp.uint32)
    return jax.lax.bitcast_convert_type(bits, jnp.int32)


def counter_dropout(
    x: jax.Array, seed: jax.Array, row: jax.Array, column: jax.Array, rate: float
) -> jax.Array:
    """x with a fraction `rate` of its values set to 0, the others divided by 1 - rate.

    Args:
      seed, row, column: int32 arrays that together broadcast to x's shape. Attention's
        probabilities have a seed for each row of the batch and head; their rows are
        queries, their columns keys.
    """
    return drop_by_hash(x, row_hash(seed, row) + column_hash(column), rate)


def row_hash(seed: jax.Array, row: jax.Array) -> jax.Array:
    """int32 hash of a row; `drop_by_hash` takes its sum with a `column_hash`."""
    return _mix(row * _signed(0x9E3779B1) + seed)


def column_hash(column: jax.Array) -> jax.Array:
    """int32 hash of a column, see `row_hash`."""
    return _mix(column * _signed(0x85EBCA77) + _signed(0xC2B2AE3D))


def drop_by_hash(x: jax.Array, sum_of_hashes: jax.Array, rate: float) -> jax.Array:
    """`counter_dropout`, given the sums of row and column hashes."""
    bits = _shift_right(_mix(sum_of_hashes), 32 - KEPT_BITS)
    kept = bits >= round(rate * 2**KEPT_BITS)
    return jnp.where(kept, x / (1 - rate), 0).astype(x.dtype)


def _mix(bits):
    """MurmurHash3's finaliser of 32 bits (Appleby 2011, fmix32)."""
    bits ^= _shift_right(bits, 16)
    bits *= _signed(0x85EBCA6B)
    bits ^= _shift_right(bits, 13)
    bits *= _signed(0xC2B2AE35)
    return bits ^ _shift_right(bits, 16)


def _shift_right(bits, count):
    """A logical right shift of an int32: zeros are shifted in."""
    return (bits >> count) & (2 ** (32 - count) - 1)


def _signed(constant: int) -> int:
    """The int32 that has the bits of an unsigned constant."""
    return constant - 2**32 if constant >= 2**31 else constant
