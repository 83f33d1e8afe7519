"""Replaced-token detection: which tokens a small model made up (Clark et al. 2020).

A generator recovers hidden tokens; samples of it stand in their places, and the
discriminator, which is kept, says of every token whether it is the original.
"""

# B batch, L length, K scored places, V vocabulary with padding

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import Example, Reads, Spec, Symbols, group_specs, scored_specs
from research.data import noise
from research.objectives import layout
from research.objectives.losses import CHUNK, Term, binary, cross_entropy
from research.objectives.mlm import budget, hide

BLOCK = 128
"""Rows of a vocabulary table come in multiples of this many."""


@dataclass(frozen=True)
class Objective:
    """Reads bos, L - 2 tokens, eos. Hidden places are distinct, and never specials."""

    rate: float = 0.15  # share of a row's tokens, specials included, that is hidden
    mask: float = (
        0.85  # share of the hidden that becomes the mask token; the rest stays
    )
    coef: float = 50.0  # weight of the discriminator's loss beside the generator's
    fraction: float = 0.25  # the generator's width over the discriminator's
    temperature: float = 1.0  # of the generator's samples
    cross_entropy: str = "fused"  # dense | chunked | fused

    pattern = "full"
    splits = True

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")
        if not 0 <= self.mask <= 1:
            raise ValueError(f"mask is between 0 and 1, not {self.mask}")
        if min(self.fraction, self.temperature) <= 0:
            raise ValueError("fraction and temperature are above 0")

    def num_scored(self, length: int) -> int:
        """K: 19 at length 128, 79 at 512 (the released code's)."""
        return max(1, int((self.rate + 0.005) * length))

    def reads(self, length: int) -> Reads:
        return Reads("stream", length - 2)

    def arrays(self, length: int) -> dict[str, Spec]:
        return group_specs(length) | scored_specs(self.num_scored(length))

    def corrupt(
        self, example: Example, key: np.ndarray, symbols: Symbols, length: int
    ) -> dict[str, np.ndarray]:
        """Hides round(rate * tokens) of a row's tokens from the generator."""
        token, num_tokens = layout.enclose(example, symbols, length)
        num_scored = self.num_scored(length)
        count = budget(num_tokens, self.rate, num_scored)
        chosen = noise.choose(key, "choose", ~symbols.special[token], count)
        return layout.full(token, num_tokens) | hide(
            token,
            chosen,
            key,
            symbols,
            num_scored=num_scored,
            mask=self.mask,
            random=0.0,
        )

    def network(self, options: Any, symbols: Symbols) -> Any:
        return models.Pair(options, size=symbols.size, fraction=self.fraction)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: generator and discriminator; their accuracies, and the share replaced.

        The discriminator scores all tokens, specials too. Always answering "original"
        is right for all but the share replaced.
        """
        hidden, target, weight = (batch[k] for k in ("scored", "target", "weight"))
        generator = net.generator
        readout = generator.readout(generator.states(batch, scored=hidden))
        made, correct = cross_entropy(readout, target, weight, form=self.cross_entropy)

        guess = sample(readout, key, batch["example"], self.temperature)
        original = write(batch["token"], hidden, target, weight)
        token = write(batch["token"], hidden, guess, weight)
        replaced = token != original
        here = (batch["segment"] > 0).astype(jnp.float32)
        discriminator = net.discriminator
        states = discriminator.states(batch | {"token": token})
        logits = discriminator.head("replaced", states)[..., 0]
        told, right = binary(logits, replaced, here)
        return {
            "generator": made,
            "discriminator": told._replace(coef=self.coef),
            "generator_accuracy": Term(correct, made.weight, 0.0),
            "discriminator_accuracy": Term(right, told.weight, 0.0),
            "replaced": Term(jnp.sum(here * replaced), told.weight, 0.0),
        }, ()


def write(
    token: jax.Array, scored: jax.Array, value: jax.Array, weight: jax.Array
) -> jax.Array:
    """`token` [B, L] with `value` at the scored places [B, K] of weight above 0."""
    place = jnp.where(weight > 0, scored, token.shape[1])
    row = jnp.arange(len(token))[:, None]
    return token.at[row, place].set(value, mode="drop")


def sample(
    readout: Any, key: jax.Array, example: jax.Array, temperature: float
) -> jax.Array:
    """[B, K] int32: a token of softmax(logits / temperature) for each feature.

    Keyed by (example, slot), so that rows may be split. By the chain rule a block of
    the vocabulary is drawn first and then a token of it, which takes V / 128 + 128
    Gumbel variables in place of V. Nothing is differentiated.
    """
    feature, table, bias = jax.lax.stop_gradient(readout[:3])

    def draw(key, logits_V):
        outer, inner = jax.random.split(key)
        blocks = logits_V.reshape(-1, BLOCK)
        block = jax.random.categorical(outer, jax.nn.logsumexp(blocks, axis=-1))
        return block * BLOCK + jax.random.categorical(inner, blocks[block])

    def at_slot(slot, feature_BE):
        keys = jax.vmap(lambda e: jax.random.fold_in(jax.random.fold_in(key, e), slot))
        logits_BV = jnp.einsum(
            "be,ve->bv",
            feature_BE,
            table.astype(feature_BE.dtype),
            preferred_element_type=jnp.float32,
        )
        logits_BV = (logits_BV + bias[None].astype(jnp.float32)) / temperature
        return jax.vmap(draw)(keys(example), logits_BV)

    batch, num_slots = feature.shape[:2]
    slots = (jnp.arange(num_slots), jnp.swapaxes(feature, 0, 1))
    size = max(1, CHUNK // (batch * len(table)))
    guess = jax.lax.map(lambda slot: at_slot(*slot), slots, batch_size=size)
    return jnp.swapaxes(guess, 0, 1).astype(jnp.int32)
