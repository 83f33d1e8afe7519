"""Optimal transport between the states of words and of patches (ViLT, UNITER)."""

# B batch, M words, N patches, D width

import jax
import jax.numpy as jnp
from jax import lax

BETA, ITERATIONS = 0.5, 50
"""For the proximal point method (dandelin/ViLT at 762fd39, modules/objectives.py)."""

TINY = 1e-12


def distance(
    word_BMD: jax.Array, patch_BND: jax.Array, word_BM: jax.Array, patch_BN: jax.Array
) -> jax.Array:
    """[B]: the cost of moving equal weights of words to equal weights of patches.

    The cost of a pair is 1 - cosine; no gradient flows through the plan (Kim et al.
    2021, section 3.2; the method is IPOT, Xie et al. 2018, algorithm 1).

    Args:
      word_BM, patch_BN: bool, which of them exist.
    """
    cosine = jnp.einsum("bmd,bnd->bmn", _unit(word_BMD), _unit(patch_BND))
    both = (word_BM[:, :, None] & patch_BN[:, None]).astype(jnp.float32)
    cost = (1 - cosine) * both
    plan = _plan(lax.stop_gradient(cost), word_BM, patch_BN, both)
    return jnp.sum(cost * lax.stop_gradient(plan), axis=(1, 2))


def _plan(
    cost: jax.Array, word: jax.Array, patch: jax.Array, both: jax.Array
) -> jax.Array:
    """[B, M, N]: the weight that goes from each word to each patch."""
    num_words = jnp.maximum(word.sum(axis=1), 1)[:, None]
    num_patches = jnp.maximum(patch.sum(axis=1), 1)[:, None]
    kernel = jnp.exp(-cost / BETA) * both

    def step(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        plan, of_word = state
        product = kernel * plan
        mass = jnp.einsum("bmn,bm->bn", product, of_word) * num_patches
        of_patch = jnp.where(patch, 1 / jnp.maximum(mass, TINY), 0.0)
        mass = jnp.einsum("bmn,bn->bm", product, of_patch) * num_words
        of_word = jnp.where(word, 1 / jnp.maximum(mass, TINY), 0.0)
        return of_word[:, :, None] * product * of_patch[:, None], of_word

    start = jnp.where(word, 1 / num_words, 0.0)
    return lax.fori_loop(0, ITERATIONS, step, (both, start))[0]


def _unit(x: jax.Array) -> jax.Array:
    x = x.astype(jnp.float32)
    square = jnp.sum(x * x, axis=-1, keepdims=True)
    return x * lax.rsqrt(jnp.maximum(square, 1e-10))
