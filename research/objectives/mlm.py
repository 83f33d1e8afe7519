"""Masked language modelling: hidden tokens from both sides (BERT, Devlin et al. 2019).

Whole words as in BERT's later release: shuffled, each that still fits the budget.
"""

# B batch, L length, K scored places

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from research import models
from research.batch import (
    WORD,
    Example,
    Reads,
    Spec,
    Symbols,
    group_specs,
    scored_specs,
)
from research.data import noise
from research.objectives import layout
from research.objectives.losses import Term, recovery


@dataclass(frozen=True)
class Objective:
    """Reads bos, L - 2 tokens, eos; scores all chosen places, also unchanged ones."""

    rate: float = 0.15  # share of a row's tokens, specials included, that is chosen
    mask: float = 0.8  # share of the chosen that becomes the mask token
    random: float = 0.1  # share that becomes an ordinary token; the rest stays
    unit: str = "token"  # token | word: what is chosen as a whole
    cross_entropy: str = "fused"  # dense | chunked | fused

    pattern = "full"
    splits = True

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")
        if min(self.mask, self.random, 1 - self.mask - self.random) < -1e-9:
            raise ValueError("mask and random are shares, together at most 1")
        if self.unit not in ("token", "word"):
            raise ValueError(f"unit is token or word, not {self.unit!r}")

    def num_scored(self, length: int) -> int:
        """K: 20 at length 128, 77 at 512."""
        return math.ceil(self.rate * length - 1e-9)

    def reads(self, length: int) -> Reads:
        return Reads("stream", length - 2)

    def arrays(self, length: int) -> dict[str, Spec]:
        return group_specs(length) | scored_specs(self.num_scored(length))

    def corrupt(
        self, example: Example, key: np.ndarray, symbols: Symbols, length: int
    ) -> dict[str, np.ndarray]:
        """Hides round(rate * tokens) of a row's tokens, never specials."""
        token, num_tokens = layout.enclose(example, symbols, length)
        count = budget(num_tokens, self.rate, self.num_scored(length))
        candidate = ~symbols.special[token]
        if self.unit == "word":
            start = np.zeros(token.shape, bool)
            start[:, 1:-1] = example.flags & WORD
            chosen = noise.choose_words(key, "choose", start, candidate, count)
        else:
            chosen = noise.choose(key, "choose", candidate, count)
        group = layout.full(token, num_tokens)
        return group | hide(
            token,
            chosen,
            key,
            symbols,
            num_scored=self.num_scored(length),
            mask=self.mask,
            random=self.random,
        )

    def network(self, options: Any, symbols: Symbols) -> Any:
        return models.Transformer(
            options, size=symbols.size, pattern=self.pattern, transform=True
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: mlm, and accuracy (not differentiated)."""
        states = net.states(batch, scored=batch["scored"])
        readout = net.readout(states)
        return recovery("mlm", readout, batch, self.cross_entropy), ()


def budget(num_tokens: np.ndarray, rate: float, most: int) -> np.ndarray:
    """[B]: how many of `num_tokens` [B] are chosen: at least one, at most `most`."""
    count = np.clip(np.rint(rate * num_tokens), 1, most).astype(np.int64)
    return np.where(num_tokens > 0, count, 0)


def hide(
    token: np.ndarray,
    chosen: np.ndarray,
    key: np.ndarray,
    symbols: Symbols,
    *,
    num_scored: int,
    mask: float,
    random: float,
) -> dict[str, np.ndarray]:
    """Overwrites the chosen places [B, L] of `token` in place.

    Each becomes the mask token, an ordinary one (which may be the same), or stays,
    independently of the others.

    Returns:
      scored, target, weight [B, K].
    """
    scored, used = layout.slots(chosen, num_scored)
    target = np.full(used.shape, symbols.pad, np.int32)
    target[used] = token[chosen]
    draw = noise.bits(key, "replace", num_scored)
    share = (draw >> np.uint64(32)) * 2.0**-32
    other = draw & np.uint64(2**32 - 1)
    other = other * np.uint64(len(symbols.ordinary)) >> np.uint64(32)
    new = np.where(share < mask + random, symbols.ordinary[other], target)
    new = np.where(share < mask, symbols.mask, new)
    token[chosen] = new[used]
    return {"scored": scored, "target": target, "weight": used.astype(np.float32)}
