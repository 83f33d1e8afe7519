"""Draws from distributions of tokens: temperature, noise, and truncation."""

# R rows, V vocabulary

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from research.contract.fields import described, number


@dataclass(frozen=True, kw_only=True)
class DrawOptions:
    """The fields of samplers that draw tokens, besides the temperature."""

    top_k: int = described(
        "draw from the k most probable tokens; 0: all",
        number(0, least=0),
        huggingface="top_k",
    )
    top_p: float = described(
        "draw from the fewest most probable tokens whose probabilities add up to it "
        "(Holtzman et al. 2020, section 3.1)",
        number(1.0, above=0, most=1),
        huggingface="top_p",
    )
    seed: int = described("of the random draws", number(0, least=0, below=2**31))


def warm(log_p_RV: jax.Array, temperature: Any) -> jax.Array:
    """Log p divided by a temperature, up to a constant of each row.

    The best is 0, also where the others are too far below it for float32.
    """
    below_RV = log_p_RV - jnp.max(log_p_RV, axis=-1, keepdims=True)
    return jnp.where(below_RV < 0, below_RV / temperature, 0.0)


def gumbel(
    log_p_RV: jax.Array, seed: jax.Array, row: jax.Array, count: jax.Array
) -> jax.Array:
    """Gumbel noise [R, V], a function of (seed, row, count) for each row."""

    def noise(seed, row):
        key = jax.random.fold_in(jax.random.key(seed), row)
        key = jax.random.fold_in(key, count)
        return jax.random.gumbel(key, log_p_RV.shape[1:])

    return jax.vmap(noise)(seed, row)


def cut_tail(log_p_RV: jax.Array, top_k: int, top_p: float) -> jax.Array:
    """Log p that is -inf outside the `top_k` best, and of these the best `top_p`.

    A token is kept if more probable ones have less than `top_p` of the probability of
    the `top_k`; so the first is always kept. So are tokens as probable as the last.
    """
    if top_k:
        least = jax.lax.top_k(log_p_RV, min(top_k, log_p_RV.shape[1]))[0][:, -1:]
        log_p_RV = jnp.where(log_p_RV >= least, log_p_RV, -jnp.inf)
    return cut_nucleus(log_p_RV, top_p) if top_p < 1 else log_p_RV


def cut_nucleus(log_p_RV: jax.Array, top_p: Any) -> jax.Array:
    """Log p that is -inf outside the best `top_p`, a number or [R, 1]; see `cut_tail`.

    If it is 1, nothing is cut.
    """
    sorted_RV = -jnp.sort(-log_p_RV, axis=-1)
    p_RV = jax.nn.softmax(sorted_RV, axis=-1)
    before_RV = jnp.cumsum(p_RV, axis=-1) - p_RV
    is_kept_RV = (before_RV < top_p) | (jnp.asarray(top_p) >= 1)
    kept_RV = jnp.where(is_kept_RV, sorted_RV, jnp.inf)
    least = jnp.min(kept_RV, axis=-1, keepdims=True)
    return jnp.where(log_p_RV >= least, log_p_RV, -jnp.inf)
