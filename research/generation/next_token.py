"""The distribution of the next token, and draws from it."""

# R rows, V vocabulary

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research.batch import VocabInfo
from research.generation.options import Options


def next_log_p(
    options: Options, vocab: VocabInfo, logits_RV: jax.Array, seen_RV: Any, count: Any
) -> jax.Array:
    """Float32 log p [R, V] of the next token; -inf: it may not be written.

    Args:
      logits_RV: of the network; rows past the vocabulary's size are left out.
      seen_RV: bool, tokens of the text so far; None without a repetition penalty.
      count: [] int32, new tokens so far.
    """
    if seen_RV is not None:
        penalty, logits = options.repetition_penalty, logits_RV[:, : vocab.size]
        lower = jnp.where(logits > 0, logits / penalty, logits * penalty)
        lower = jnp.where(seen_RV, lower, logits)
        logits_RV = logits_RV.at[:, : vocab.size].set(lower)
    log_p_RV = jax.nn.log_softmax(logits_RV, axis=-1)[:, : vocab.size]
    is_end = np.arange(vocab.size) == vocab.eos_id
    never = np.isin(np.arange(vocab.size), (vocab.pad_id, vocab.bos_id, vocab.mask_id))
    never = (never & ~is_end) | (is_end & (count < options.min_tokens))
    return jnp.where(never[None], -jnp.inf, log_p_RV)


def seen_tokens(
    options: Options, vocab: VocabInfo, token_RL: jax.Array
) -> jax.Array | None:
    """[R, V] bool: the ordinary tokens of each row; None without a penalty."""
    if options.repetition_penalty == 1:
        return None
    row = jnp.arange(len(token_RL))[:, None]
    seen_RV = jnp.zeros((len(token_RL), vocab.size), bool).at[row, token_RL].set(True)
    return seen_RV & ~vocab.is_special[None]


def add_seen(vocab: VocabInfo, seen_RV: Any, token_R: jax.Array) -> Any:
    """The seen tokens with one more of each row; special tokens are never seen."""
    if seen_RV is None:
        return None
    is_new = jnp.arange(vocab.size)[None] == token_R[:, None]
    return seen_RV | (is_new & ~vocab.is_special[None])


def draw(
    options: Options, log_p_RV: jax.Array, row: jax.Array, count: jax.Array
) -> jax.Array:
    """[R] int32: a sample of each row, a function of (seed, row, count) and log p.

    Args:
      row: [R] int32, the row's number among all that are asked for.
      count: [] int32, new tokens so far.
    """
    key = jax.random.key(options.seed)

    def noise(row):
        each = jax.random.fold_in(jax.random.fold_in(key, row), count)
        return jax.random.gumbel(each, log_p_RV.shape[1:])

    kept_RV = cut_tail(log_p_RV / options.temperature, options.top_k, options.top_p)
    return jnp.argmax(kept_RV + jax.vmap(noise)(row), axis=-1).astype(jnp.int32)


def cut_tail(log_p_RV: jax.Array, top_k: int, top_p: float) -> jax.Array:
    """Log p that is -inf outside the `top_k` best, and of these the best `top_p`.

    A token is kept if those before it have less than `top_p` of the probability of the
    `top_k`; so the first is always kept. Tokens as probable as the last are kept too.
    """
    if top_k:
        least = jax.lax.top_k(log_p_RV, min(top_k, log_p_RV.shape[1]))[0][:, -1:]
        log_p_RV = jnp.where(log_p_RV >= least, log_p_RV, -jnp.inf)
    if top_p < 1:
        sorted_RV = -jnp.sort(-log_p_RV, axis=-1)
        p_RV = jax.nn.softmax(sorted_RV, axis=-1)
        before_RV = jnp.cumsum(p_RV, axis=-1) - p_RV
        kept_RV = jnp.where(before_RV < top_p, sorted_RV, jnp.inf)
        least = jnp.min(kept_RV, axis=-1, keepdims=True)
        log_p_RV = jnp.where(log_p_RV >= least, log_p_RV, -jnp.inf)
    return log_p_RV
