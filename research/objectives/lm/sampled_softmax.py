"""Sampled softmax over the target and drawn words (Jean et al. 2015, section 3.1).

Words are drawn from a log-uniform distribution of their rank, as TensorFlow's
`log_uniform_candidate_sampler` does: ids must be sorted by frequency. Each logit is
reduced by the log probability that its word is among the drawn ones. Given these, the
softmax is then the probability that a word is the target, if the logits are those of
the full softmax.
"""

# B batch, K scored positions, E width of the table, V words, S words drawn

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from research.networks import constrain
from research.objectives.losses.cross_entropy import Term


def log_uniform(word: jax.Array, size: int) -> jax.Array:
    """log p of words 0 to V - 1: p = log((n + 2) / (n + 1)) / log(V + 1)."""
    rank = word.astype(jnp.float32)
    return jnp.log(jnp.log1p(1 / (rank + 1))) - jnp.log(jnp.log(size + 1.0))


@functools.lru_cache(maxsize=4)
def shares(size: int) -> np.ndarray:
    """[V - 1] uint32: the cumulative distribution of all words but the last, in 2^-32.

    A float32 between 0 and 1 has too few values for large vocabularies: it would never
    draw one in twenty of 793,474 words.
    """
    ends = np.log(np.arange(2, size + 1)) / np.log(size + 1)
    return np.floor(ends * 2**32).astype(np.uint32)


def draw_words(key: jax.Array, count: int, size: int) -> jax.Array:
    """[S]: the words of `count` log-uniform draws, ascending.

    Repeats are V, no word. TensorFlow continues to draw until it has `count` words.
    """
    bits = jax.random.bits(key, (count,), "uint32")
    drawn = jnp.sort(jnp.searchsorted(shares(size), bits, side="right"))
    repeats = jnp.pad(drawn[1:] == drawn[:-1], (1, 0))
    return jnp.where(repeats, size, drawn)


def log_drawn(word: jax.Array, count: int, size: int) -> jax.Array:
    """log of the probability that a word is among those of `count` draws."""
    never = count * jnp.log1p(-jnp.exp(log_uniform(word, size)))
    return jnp.log(-jnp.expm1(never))


def sampled_cross_entropy(
    readout: Any, target: jax.Array, weight: jax.Array, key: jax.Array, count: int
) -> Term:
    """Weighted sum of -log p(target) among the target and `count` drawn words.

    All positions are compared with the same words, which depend only on the key, so any
    split of the batch has the same loss. A drawn word that equals a position's target
    is left out there.

    Args:
      readout, target, weight: as in `cross_entropy`.

    Raises:
      UserError: the readout has clusters.
    """
    size = readout.size
    drawn_S = draw_words(key, count, size)
    table_VE = constrain(readout.table, "vocab", None)

    def rows(word: jax.Array) -> jax.Array:
        row = jnp.take(table_VE, word, axis=0, mode="clip")
        names = ("batch", "length", None) if word.ndim == 2 else (None, None)
        return constrain(row, *names).astype(readout.feature.dtype)

    def correction(word: jax.Array) -> jax.Array:
        """What is added to the dot product of a word."""
        bias = jnp.take(readout.bias, word, mode="clip")
        return bias - log_drawn(word, count, size)

    options: dict[str, Any] = {"preferred_element_type": jnp.float32}
    true_BK = jnp.einsum("bke,bke->bk", readout.feature, rows(target), **options)
    true_BK += correction(target)
    logits_BKS = jnp.einsum("bke,se->bks", readout.feature, rows(drawn_S), **options)
    logits_BKS += correction(drawn_S)[None, None]
    drawn_11S = drawn_S[None, None]
    is_none_BKS = (drawn_11S == target[..., None]) | (drawn_11S == size)
    logits_BKS = jnp.where(is_none_BKS, -jnp.inf, logits_BKS)
    all_BKT = jnp.concatenate([true_BK[..., None], logits_BKS], axis=-1)
    loss_BK = jax.nn.logsumexp(all_BKT, axis=-1) - true_BK
    weight = weight.astype(jnp.float32)
    return Term(jnp.sum(loss_BK * weight), lax.stop_gradient(jnp.sum(weight)))
