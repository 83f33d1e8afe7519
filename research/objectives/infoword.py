"""A sentence and its n-gram know each other (InfoWord, Kong et al. 2020, section 4).

Of each text one n-gram is hidden whole. The class token's state of the text that is
left is to score higher with that n-gram, read by itself, than with those of the other
documents of the batch. Single tokens are hidden and recovered besides, as in BERT.
"""

# B batch, L length, K hidden places, G n-gram's length with its specials, D width

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import (
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_group,
    input_specs,
    scored_specs,
)
from research.data import counter_rng
from research.objectives.corruption.masking import budget, hide
from research.objectives.inputs import input_format
from research.objectives.losses import contrastive
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy


@dataclass(frozen=True)
class Objective:
    """TextSpec bos, whole sentences of a document, eos; and bos, n-gram, eos.

    The score of the two is the dot product of their class tokens' states. A text of one
    token has no n-gram.
    """

    longest: int = 5  # tokens of an n-gram; 1 to so many are as likely
    coef: float = 1.0  # weight of the n-grams' loss beside that of hidden tokens
    rate: float = 0.15  # share of a row's tokens, specials included, that is hidden
    mask: float = 0.8  # share of the hidden that becomes the mask token
    random: float = 0.1  # share that becomes an ordinary token; the rest stays
    negatives: int = 0  # hidden tokens of the batch that each is told apart from; 0:
    # all of the vocabulary

    family = "contrastive"
    pattern = "full"
    supports_accumulation = False

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")
        if min(self.mask, self.random, 1 - self.mask - self.random) < -1e-9:
            raise ValueError("mask and random are shares, together at most 1")
        if self.longest < 1 or self.negatives < 0:
            raise ValueError("longest is at least 1, negatives at least 0")

    def num_scored(self, length: int) -> int:
        """K: 20 at length 128, 77 at 512."""
        return math.ceil(self.rate * length - 1e-9)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("passage", length - 2)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return (
            input_specs(length)
            | input_specs(self.longest + 2, "ngram_")
            | scored_specs(self.num_scored(length))
            | {"document": ArraySpec(()), "ngram_weight": ArraySpec((), np.float32)}
        )

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides an n-gram, and tokens outside of it."""
        token, num_tokens = input_format.enclose(example, vocab, length)
        free = ~vocab.is_special[token]
        begin, size = spans(key, free & (num_tokens > 3)[:, None], self.longest)
        place = np.arange(length)
        inside = (place >= begin[:, None]) & (place < (begin + size)[:, None])
        ngram = np.full((len(key), self.longest + 2), vocab.pad_id, np.int32)
        ngram[:, 0] = vocab.bos_id
        column = np.arange(self.longest + 2)
        held = (column > 0) & (column <= size[:, None])
        ngram[held] = token[inside]
        ngram[np.arange(len(key)), size + 1] = vocab.eos_id
        ngram[size == 0] = vocab.pad_id
        token[inside] = vocab.mask_id

        count = budget(num_tokens, self.rate, self.num_scored(length))
        hidden = hide(
            token,
            counter_rng.choose_subset(key, "choose", free & ~inside, count),
            key,
            vocab,
            num_scored=self.num_scored(length),
            mask=self.mask,
            random=self.random,
        )
        ngram_length = np.where(size > 0, size + 2, 0)
        group = input_format.full(token, num_tokens)
        return (
            group
            | hidden
            | input_format.full(ngram, ngram_length, "ngram_")
            | {
                "document": (example.document & np.iinfo(np.int32).max).astype(
                    np.int32
                ),
                "ngram_weight": (size > 0).astype(np.float32),
            }
        )

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        return models.Transformer(
            options,
            size=vocab.size,
            pattern=self.pattern,
            transform=True,
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: mlm and infonce; their accuracies (not trained on)."""
        scored = batch["scored"]
        first = jnp.zeros_like(scored[:, :1])
        states = net.states(batch, scored=jnp.concatenate([scored, first], axis=1))
        terms = self._recover(net.readout(states[:, :-1]), batch, key)
        ngram = net.states(input_group(batch, "ngram_"), scored=first)
        document, weight = batch["document"], batch["ngram_weight"]
        told, right = contrastive.info_nce(states[:, -1], ngram[:, 0], document, weight)
        return terms | {
            "infonce": told._replace(coef=self.coef),
            "infonce_accuracy": Term(right, told.weight, 0.0),
        }, ()

    def _recover(self, readout: Any, batch: dict, key: jax.Array) -> dict[str, Term]:
        """Terms of the hidden tokens."""
        if not self.negatives:
            return masked_cross_entropy("mlm", readout, batch)
        target, weight = batch["target"], batch["weight"]
        negative = contrastive.draw(key, target, weight, self.negatives)
        term, right = contrastive.sampled(readout, target, weight, negative)
        return {"mlm": term, "accuracy": Term(right, term.weight, 0.0)}


def spans(
    key: np.ndarray, candidate: np.ndarray, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """begin, size [B] of one n-gram a row; size 0 where there is no candidate.

    The size is uniform in 1..`longest`, or up to the longest run of candidates [B, L]
    that there is; the place is uniform among those where so many candidates follow.
    """
    length = candidate.shape[1]
    stop = np.where(candidate, length, np.arange(length))[:, ::-1]
    ahead = np.minimum.accumulate(stop, axis=1)[:, ::-1] - np.arange(length)
    draw = counter_rng.uniform(key, "ngram", 1)[:, 0]
    most = np.minimum(ahead.max(axis=1), longest)
    size = np.where(most > 0, 1 + (draw * most).astype(np.int64), 0)
    fits = ahead >= np.maximum(size, 1)[:, None]
    begin = counter_rng.choose_subset(
        key, "ngram place", fits, (size > 0).astype(np.int64)
    )
    return begin.argmax(axis=1), size
