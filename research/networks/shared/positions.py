"""Functions of position arrays, in which positions may restart or repeat."""

# B batch, L queries, M keys, D width, H heads, K head width, R buckets

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

NUM_BUCKETS, MAX_DISTANCE = 32, 128
"""T5's relative buckets, and the distance from which on all share the last one."""


def sinusoids(position_BL: jax.Array, width: int) -> jax.Array:
    """[B, L, width]: sines, then cosines (Vaswani et al. 2017, section 3.5)."""
    angle_BLD = sinusoid_angles(position_BL, width)
    parts = (jnp.sin(angle_BLD), jnp.cos(angle_BLD))
    return jnp.concatenate(parts, axis=-1)[..., :width]


def rotary_angles(
    position_BL: jax.Array,
    width: int,
    theta: float = 10_000,
    scaling: Sequence[float] = (),
) -> tuple[jax.Array, jax.Array]:
    """Cosines and sines [B, L, 1, width / 2], as `apply_rotary` takes them.

    Args:
      scaling: of `model.rope_scaling`.
    """
    rate = _rates(width, theta)
    if scaling:
        rate = rate * _llama3_factors(rate, *scaling)
    angle_BLK = position_BL.astype(jnp.float32)[..., None] * rate[None, None]
    return jnp.cos(angle_BLK[:, :, None]), jnp.sin(angle_BLK[:, :, None])


def _llama3_factors(
    rate: np.ndarray, factor: float, low: float, high: float, length: float
) -> np.ndarray:
    """What rates are multiplied by.

    That is 1 / factor where fewer than `low` wavelengths fit into the length, 1 where
    more than `high` do, between them linear in their number.
    """
    num_waves = length * rate / (2 * math.pi)
    kept = np.clip((num_waves - low) / (high - low), 0, 1)
    return (kept + (1 - kept) / factor).astype(np.float32)


def apply_rotary(state_BLHK: jax.Array, cos: jax.Array, sin: jax.Array) -> jax.Array:
    """Rotates pairs of numbers of a head by their angle.

    The pairs are (k, k + W / 2) of the first W numbers, twice as many as there are
    angles (Su et al. 2021, section 3.4.2).
    """
    width = cos.shape[-1]
    first, second, rest = jnp.split(
        state_BLHK.astype(jnp.float32), (width, 2 * width), axis=-1
    )
    rotated = (first * cos - second * sin, second * cos + first * sin, rest)
    return jnp.concatenate(rotated, axis=-1).astype(state_BLHK.dtype)


def sinusoid_angles(
    position_BL: jax.Array, width: int, theta: float = 10_000
) -> jax.Array:
    """[B, L, ceil(width / 2)]: position x theta^(-2n / width), in radians."""
    rate = _rates(width, theta)
    return position_BL.astype(jnp.float32)[..., None] * rate[None, None]


def _rates(width: int, theta: float) -> np.ndarray:
    """[ceil(width / 2)]: theta^(-2n / width)."""
    n = np.arange((width + 1) // 2)
    return np.exp(-math.log(theta) / (width / 2) * n, dtype=np.float32)


def relative_bucket(distance: Any, *, one_way: bool, numpy: Any = jnp) -> Any:
    """T5's bucket of each distance (key - query), int32 of the same shape.

    Half of the buckets of a direction are one distance each, the others grow
    logarithmically up to MAX_DISTANCE (Raffel et al. 2020, section 2.1, the released
    code). Bounds are integers, so no bucket depends on the rounding of a logarithm.

    Args:
      one_way: all buckets are of keys before the query, and all keys from it on are in
        the first; False: half of them are of keys after it.
      numpy: the module whose arrays the distances are.
    """
    count = NUM_BUCKETS if one_way else NUM_BUCKETS // 2
    exact = count // 2
    absolute = numpy.maximum(-distance, 0) if one_way else numpy.abs(distance)
    bucket = numpy.minimum(absolute, exact)
    for step in range(1, count - exact):
        power = (MAX_DISTANCE / exact) ** (step / (count - exact))
        bound = math.ceil(exact * power - 1e-9)
        bucket = bucket + (absolute >= bound)
    if not one_way:
        bucket = bucket + count * (distance > 0)
    return bucket.astype(numpy.int32)


def log_bucket(distance: Any, num_buckets: int, largest: int) -> Any:
    """DeBERTa's bucket of each distance, int32 of the same shape.

    Distances up to half of the buckets have one each, larger ones share buckets that
    grow logarithmically up to `largest` - 1, which is in the last one, `num_buckets` -
    1; those to the other side are negative (He et al. 2021, the released da_utils.py,
    make_log_bucket_position). Bounds are integers, as in `relative_bucket`.
    """
    middle, absolute = num_buckets // 2, jnp.abs(distance)
    bucket = jnp.minimum(absolute, middle)
    for step in range(middle - 1):
        power = ((largest - 1) / middle) ** (step / (middle - 1))
        bucket = bucket + (absolute > math.floor(middle * power + 1e-9))
    return (jnp.sign(distance) * bucket).astype(jnp.int32)


def bucket_steps(*, one_way: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """T5's buckets as a step function of the distance.

    Returns:
      the distances at which the next step begins, ascending; the bucket of each step,
      one more.
    """
    distance = np.arange(-MAX_DISTANCE - 1, MAX_DISTANCE + 2)
    bucket = relative_bucket(distance, one_way=one_way, numpy=np)
    begins = np.flatnonzero(np.diff(bucket)) + 1
    bounds = distance[begins].tolist()
    return tuple(bounds), tuple(bucket[[0, *begins]].tolist())


def relative_bias(
    table_RH: jax.Array, query_BL: jax.Array, key_BM: jax.Array, *, one_way: bool
) -> jax.Array:
    """[B, H, L, M]: T5's bias of each head's logits, of query and key positions."""
    distance_BLM = key_BM[:, None, :] - query_BL[:, :, None]
    bucket_BLM = relative_bucket(distance_BLM, one_way=one_way)
    bias_BLMH = jnp.take(table_RH, bucket_BLM, axis=0, mode="clip")
    return jnp.moveaxis(bias_BLMH, -1, 1)
