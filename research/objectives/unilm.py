"""Cloze under four kinds of sight in one network (UniLM, Dong et al. 2019, section 2).

A row is read both ways, from left to right, from right to left, or as a source that
sees itself and a target that sees the source and what comes before it. What is hidden
is recovered at its own place in each of them; only rank and reach differ.
"""

# B batch, L length, K scored places, R raw tokens an example

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import (
    OTHER_DOCUMENT,
    SENTENCE,
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.data import counter_rng
from research.objectives.corruption import masking
from research.objectives.inputs import input_format, sentence_pairs
from research.objectives.losses.cross_entropy import Term, masked_cross_entropy

BIDIRECTIONAL, SEQ2SEQ, FORWARD, BACKWARD = range(4)
FIRST_KIND = np.array([0, 4, 2, 3])
"""Kinds tell the modes apart: the first segment's; a second one's is the next."""

NUM_KINDS = 6


@dataclass(frozen=True)
class Objective:
    """TextSpec bos, first segment, eos, second segment, eos: L - 3 tokens.

    The mode of a row is drawn by its key alone. Both ways, a pair is read as BERT does
    and the sentence loss is scored. The other modes read text that runs on: of a pair
    of two documents its first span alone. From one side they read one segment (bos,
    text, eos); as source and target the two spans, or one span cut before a sentence
    (where it has one only, anywhere).

    Chosen tokens are single or short n-grams, which end at a special; the last one is
    cut to the budget. Of specials only a target's eos may be chosen, which teaches
    where to stop.
    """

    rate: float = 0.15  # share of a row's tokens, specials included, that is chosen
    grams: float = 0.2  # share of choices that are n-grams of 2 to `longest` tokens
    longest: int = 3  # tokens of an n-gram; all lengths are equally likely
    mask: float = 0.8  # share of the chosen that becomes the mask token
    random: float = 0.1  # share that becomes an ordinary token; the rest stays
    bidirectional: float = 1 / 3  # share of rows; those of the four modes sum to 1
    seq2seq: float = 1 / 3
    forward: float = 1 / 6
    backward: float = 1 / 6
    other: float = 0.5  # share of pairs whose second span is of another document

    family = "LM"
    pattern = "general"
    supports_accumulation = True

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")
        if min(self.mask, self.random, 1 - self.mask - self.random) < -1e-9:
            raise ValueError("mask and random are shares, together at most 1")
        if not 0 <= self.grams <= 1 or not 0 <= self.other <= 1:
            raise ValueError("grams and other are shares, from 0 to 1")
        if self.longest < 2:
            raise ValueError(f"longest is at least 2 tokens, not {self.longest}")
        if min(self._shares) < 0 or abs(sum(self._shares) - 1) > 1e-6:
            raise ValueError(
                "bidirectional, seq2seq, forward and backward are shares of all rows "
                f"and sum to 1, not {sum(self._shares):g}"
            )

    @property
    def _shares(self) -> tuple[float, ...]:
        """In order of the modes."""
        return self.bidirectional, self.seq2seq, self.forward, self.backward

    def num_scored(self, length: int) -> int:
        """K: 20 at length 128, 77 at 512."""
        return math.ceil(self.rate * length - 1e-9)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("pair", length - 3, other_document_rate=self.other)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        scored = scored_specs(self.num_scored(length))
        return input_specs(length) | scored | sentence_pairs.specs()

    def mode(self, key: np.ndarray) -> np.ndarray:
        """[B] int64: the mode of each row."""
        ends = np.cumsum(self._shares)[:-1]
        return np.searchsorted(ends, counter_rng.uniform(key, "mode", 1)[:, 0], "right")

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides round(rate * tokens) of a row's tokens, and what its mode hides."""
        mode = self.mode(key)
        size = spans(example, key, mode)
        begin = np.pad(size, [(0, 0), (1, 0)])[:, :-1]
        opens = (vocab.bos_id, None)
        text = input_format.compose(example, begin, size, vocab, length, opens=opens)
        token, two = text.token, size[:, 1] > 0
        rank = sees_up_to(mode, text)
        here = np.arange(length) < text.length[:, None]
        kind = np.where(here, FIRST_KIND[mode][:, None] + text.token_type, 0)
        group = input_format.full(token, text.length)
        group |= {
            "token_type": kind.astype(np.int32),
            "rank": rank,
            "reach": rank.copy(),
        }

        candidate = ~vocab.is_special[token] & here
        closes = np.arange(length) == text.length[:, None] - 1
        candidate |= closes & (two & (mode == SEQ2SEQ))[:, None]
        num_scored = self.num_scored(length)
        sizes = gram_sizes(key, length, self.grams, self.longest)
        count = masking.budget(text.length, self.rate, num_scored)
        hidden = masking.hide(
            token,
            choose_grams(key, candidate, sizes, count),
            key,
            vocab,
            num_scored=num_scored,
            mask=self.mask,
            random=self.random,
        )
        asked = sentence_pairs.ask("nsp", example, key)
        weight = asked.label_weight * (mode == BIDIRECTIONAL)
        label = np.where(weight > 0, asked.label, 0)
        return group | hidden | {"label": label, "label_weight": weight}

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: there are kinds, but too few to tell the modes apart."""
        input_format.check_token_types(options, NUM_KINDS)
        return models.Transformer(
            options,
            size=vocab.size,
            pattern=self.pattern,
            transform=True,
            heads=sentence_pairs.heads("nsp", 2),
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: unilm and nsp; and the accuracy of each (not differentiated)."""
        scored = batch["scored"]
        places = jnp.concatenate([jnp.zeros_like(scored[:, :1]), scored], axis=1)
        states = net.states(batch, scored=places)
        readout = net.readout(states[:, 1:])
        terms = masked_cross_entropy("unilm", readout, batch)
        return terms | sentence_pairs.score(
            "nsp", net.head("nsp", states[:, 0]), batch
        ), ()


def spans(example: Example, key: np.ndarray, mode: np.ndarray) -> np.ndarray:
    """[B, 2]: raw tokens of each segment of a row, by its mode; the second may be 0."""
    whole = (mode == BIDIRECTIONAL) | (example.label != OTHER_DOCUMENT)
    num_raw = np.where(whole, example.length, example.first_length)
    place = np.arange(example.token.shape[1])
    inside = (place > 0) & (place < num_raw[:, None])
    starts = inside & ((example.flags & SENTENCE) > 0)
    starts = np.where(starts.any(axis=1, keepdims=True), starts, inside)
    cut = np.argmax(counter_rng.choose_subset(key, "cut", starts, 1), axis=1)
    cut = np.where(whole, example.first_length, np.where(cut > 0, cut, num_raw))
    cut = np.where(mode >= FORWARD, num_raw, np.minimum(cut, num_raw))
    return np.stack([cut, num_raw - cut], axis=1)


def sees_up_to(mode: np.ndarray, text: input_format.Text) -> np.ndarray:
    """[B, L]: the rank, and the reach, of every place."""
    place = np.arange(text.token.shape[1], dtype=np.int32)
    mode, end = mode[:, None], text.length[:, None]
    source = np.sum((text.token_type == 0) & (place < end), axis=1, keepdims=True)
    rank = np.select(
        [mode == BIDIRECTIONAL, mode == SEQ2SEQ, mode == FORWARD],
        [0, place + 1 - source, place],
        end - 1 - place,
    )
    return np.maximum(rank, 0).astype(np.int32)


def gram_sizes(key: np.ndarray, length: int, share: float, longest: int) -> np.ndarray:
    """[B, L]: tokens that a choice of each place takes, from it on: 1 to `longest`."""
    draw = counter_rng.uniform(key, "grams", 2 * length).reshape(len(key), length, 2)
    size = 2 + (draw[..., 1] * (longest - 1)).astype(np.int64)
    return np.where(draw[..., 0] < share, size, 1)


def choose_grams(
    key: np.ndarray, candidate: np.ndarray, sizes: np.ndarray, count: np.ndarray
) -> np.ndarray:
    """[B, L] bool: `count` [B] of the candidates [B, L], place by place at random.

    A place that is still free takes `sizes` [B, L] tokens from itself on, up to the
    first that is no candidate; those chosen before are passed over (the released code).
    """
    length = candidate.shape[1]
    score = np.where(
        candidate,
        counter_rng.random_bits(key, "choose", length),
        counter_rng.MAX_UINT64,
    )
    order = np.argsort(score, axis=1, kind="stable")
    left = np.minimum(count, candidate.sum(axis=1))
    chosen = np.zeros((len(candidate), length + 1), bool)
    fits = np.pad(candidate, [(0, 0), (0, 1)])
    row = np.arange(len(candidate))
    for first in order.T:
        if not left.any():
            break
        going = fits[row, first] & ~chosen[row, first]
        size = sizes[row, first]
        for further in range(int(size.max(initial=1))):
            place = np.minimum(first + further, length)
            going = going & fits[row, place] & (further < size)
            new = going & ~chosen[row, place] & (left > 0)
            chosen[row, place] |= new
            left = left - new
    return chosen[:, :-1]
