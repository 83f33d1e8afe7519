"""T5's bias of the logits: a number per head and bucket of distances.

All layers share it (Raffel et al. 2020, section 2.1).
"""

# B batch, L queries, M keys, H heads, R buckets

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.fields import choice
from research.networks.shared.dense import normal
from research.networks.transformer import positions

NUM_BUCKETS, MAX_DISTANCE = 32, 128
"""The number of buckets, and the distance from which all share the last one."""


@dataclass(frozen=True)
class Scheme(positions.Scheme):
    """A table of 32 buckets, in each stack."""

    position_buckets: str = choice("auto", ("auto", "one_way", "two_way"))  # one_way:
    # all for keys before a query (t5x's decoder_only); two_way: half for keys after it;
    # auto: one_way only in causal stacks (Mesh TensorFlow's SelfAttention.compute_bias)

    def features(self, options):
        return ("bias",)

    def buckets(self, pattern: str) -> str:
        if self.position_buckets == "auto":
            return "one_way" if pattern == "causal" else "two_way"
        return self.position_buckets

    def bias(self, stack, options, inputs):
        std = options.width**-0.5 if options.init == "t5" else 0.02
        shape = (NUM_BUCKETS, options.heads)
        table = stack.param("relative", normal(options, std, None, "heads"), shape)
        return Bias(table, one_way=self.buckets(inputs.pattern) == "one_way")


class Bias(NamedTuple):
    """A `positions.Bias`."""

    table: jax.Array  # [R, H]
    one_way: bool  # all buckets are for keys before a query

    def between(self, query_BL: jax.Array, key_BM: jax.Array) -> jax.Array:
        """[B, H, L, M]: the bias for positions of queries and keys."""
        distance_BLM = key_BM[:, None, :] - query_BL[:, :, None]
        bucket_BLM = relative_bucket(distance_BLM, one_way=self.one_way)
        bias_BLMH = jnp.take(self.table, bucket_BLM, axis=0, mode="clip")
        return jnp.moveaxis(bias_BLMH, -1, 1)

    def steps(self) -> tuple[tuple[int, ...], jax.Array]:
        """The bias as a step function of the distance."""
        bounds, buckets = bucket_steps(one_way=self.one_way)
        return bounds, self.table.astype(jnp.float32)[np.array(buckets)]


def relative_bucket(distance: Any, *, one_way: bool, numpy: Any = jnp) -> Any:
    """T5's bucket of each distance (key - query), int32 of the same shape.

    Half of the buckets of a direction have one distance each; the others grow
    logarithmically up to MAX_DISTANCE (Raffel et al. 2020, section 2.1, the released
    code). Bounds are integers, so no bucket depends on the rounding of a logarithm.

    Args:
      one_way: all buckets are for keys before the query, and all keys from it on are in
        the first; False: half of them are for keys after it.
      numpy: the module of the distances' arrays.
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


def bucket_steps(*, one_way: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """T5's buckets as a step function of the distance.

    Returns:
      The distances at which the next step begins, ascending; the bucket of each step,
      one more.
    """
    distance = np.arange(-MAX_DISTANCE - 1, MAX_DISTANCE + 2)
    bucket = relative_bucket(distance, one_way=one_way, numpy=np)
    begins = np.flatnonzero(np.diff(bucket)) + 1
    bounds = distance[begins].tolist()
    return tuple(bounds), tuple(bucket[[0, *begins]].tolist())
