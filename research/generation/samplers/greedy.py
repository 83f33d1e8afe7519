"""The most probable next token."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from research.generation.samplers.shared.single_text import SingleText, Texts


@dataclass(frozen=True, kw_only=True)
class Sampler(SingleText):
    """Its options are those of all that write left to right."""

    likeliest = True

    def choose(self, log_p_BV: jax.Array, state: Texts) -> jax.Array:
        return jnp.argmax(log_p_BV, axis=-1).astype(jnp.int32)
