"""Draws from the distribution of the next token, or from its head."""

# R rows, V vocabulary

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research.contract.fields import described, number
from research.generation.samplers.shared.draws import (
    DrawOptions,
    cut_nucleus,
    cut_tail,
    gumbel,
    warm,
)
from research.generation.samplers.shared.single_text import SingleText, Texts


class Sampling(NamedTuple):
    """How each row's tokens are drawn, as arrays: one compiled function has them all.

    See the fields of `Sampler` of these names.
    """

    temperature: jax.Array | np.ndarray  # [R] float32; 0: the most probable token
    top_p: jax.Array | np.ndarray  # [R] float32, above 0
    seed: jax.Array | np.ndarray  # [R] int32


@dataclass(frozen=True, kw_only=True)
class Sampler(DrawOptions, SingleText):
    """Samples are functions of (seed, number of the row, tokens so far) and log p."""

    serves = 3

    temperature: float = described(
        "logits are divided by it", number(1.0, above=0), huggingface="temperature"
    )

    @classmethod
    def fits(cls, options, *, draws):
        return int(draws)

    def choose(self, log_p_BV: jax.Array, state: Texts) -> jax.Array:
        if state.sampling is not None:
            return draw_by_row(state.sampling, log_p_BV, state.row, state.count)
        return draw(self, log_p_BV, state.row, state.count)


def draw(
    sampler: Sampler, log_p_RV: jax.Array, row: jax.Array, count: jax.Array
) -> jax.Array:
    """[R] int32: a sample of each row, a function of (seed, row, count) and log p.

    Args:
      row: [R] int32, the row's number among all requested ones.
      count: [] int32, new tokens so far.
    """
    warm_RV = warm(log_p_RV, sampler.temperature)
    kept_RV = cut_tail(warm_RV, sampler.top_k, sampler.top_p)
    seed = jnp.full_like(row, sampler.seed)
    return jnp.argmax(kept_RV + gumbel(kept_RV, seed, row, count), axis=-1).astype(
        jnp.int32
    )


def draw_by_row(
    sampling: Sampling, log_p_RV: jax.Array, row: jax.Array, count: jax.Array
) -> jax.Array:
    """[R] int32: `draw` with the `sampling` of each row."""
    temperature_R1 = sampling.temperature[:, None]
    warm_RV = warm(log_p_RV, jnp.where(temperature_R1 > 0, temperature_R1, 1.0))
    kept_RV = cut_nucleus(warm_RV, sampling.top_p[:, None])
    noisy_RV = kept_RV + gumbel(kept_RV, sampling.seed, row, count)
    chosen_RV = jnp.where(temperature_R1 > 0, noisy_RV, log_p_RV)
    return jnp.argmax(chosen_RV, axis=-1).astype(jnp.int32)
