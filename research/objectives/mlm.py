"""Masked language modelling: hidden tokens from both sides (BERT, Devlin et al. 2019).

Its published relatives are other values of its fields: what is chosen as a whole, what
becomes of it, in which format texts are read, what else is asked of them.
"""

# B batch, L length, K scored places, D width

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import (
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.objectives.corruption import mask_units
from research.objectives.corruption.masking import (
    DRAWS,
    FATES,
    ROUNDINGS,
    boundaries,
    budget,
    hide,
    num_trigrams,
    shuffle,
)
from research.objectives.inputs import input_format, sentence_pairs
from research.objectives.losses.cross_entropy import (
    Term,
    cross_entropy,
    masked_cross_entropy,
)

STREAMS = {
    "stream": "stream",
    "full_sentences": "sentences",
    "doc_sentences": "passage",
}
"""Formats of one segment, and the unit of text each reads (Liu et al. 2019, 4.2)."""

SENTENCES = ("none", "nsp", "sop", "sop_released", "structural")
"""What may be asked of a pair besides; see `relations`."""


@dataclass(frozen=True)
class Objective:
    """TextSpec bos, text, eos, or bos, A, eos, B, eos; scores all chosen places.

    Chosen are rate * tokens of a row, specials included, but never specials.
    """

    rate: float = 0.15  # share of a row's tokens, specials included, that is chosen
    mask: float = 0.8  # share of the chosen that becomes the mask token
    random: float = 0.1  # share that becomes another token; the rest stays
    unit: str = "token"  # token | word | ngram | span | lexicon: chosen as a whole
    longest: int = 0  # words of an n-gram or span; 0: 3 of an n-gram, 10 of a span
    kinds: str = ""  # of entries of data.lexicon, separated by commas. Unit lexicon:
    # those hidden before single words ("": all); other units: entries that are words
    replace: str = "token"  # token | span: what shares a draw of mask, random or stay
    draw: str = "ordinary"  # ordinary | all: where other tokens are from (BERT: all)
    rounding: str = "nearest"  # nearest | up | random: of rate * tokens (RoBERTa:
    # random, floor(rate * tokens + u))
    format: str = "stream"  # stream | full_sentences | doc_sentences | segment_pair |
    # sentence_pair
    sentence: str = "none"  # none | nsp | sop | sop_released | structural: what is
    # asked of a pair
    short: float = 0.1  # share of segment pairs that is made shorter
    shuffle: float = 0.0  # share of tokens in trigrams that are shuffled, then scored
    # at their places (StructBERT: 0.05)
    boundary: int = 0  # places of a span that are also recovered from the clear places
    # around it (SpanBERT: 15); 0: none

    family = "MLM"
    pattern = "full"
    supports_accumulation = True

    def __post_init__(self):
        if not 0 < self.rate < 1:
            raise ValueError(f"rate is between 0 and 1, not {self.rate}")
        if min(self.mask, self.random, 1 - self.mask - self.random) < -1e-9:
            raise ValueError("mask and random are shares, together at most 1")
        if not 0 <= self.shuffle <= 1 - self.rate:
            raise ValueError("rate and shuffle are shares, together at most 1")
        if not 0 <= self.short <= 1:
            raise ValueError(f"short is a share, not {self.short}")
        if min(self.longest, self.boundary) < 0:
            raise ValueError("longest and boundary are at least 0")
        if self.shuffle and self.boundary:
            raise ValueError("shuffled trigrams have no boundary: one of both is 0")
        for field, values in (
            ("unit", mask_units.UNITS),
            ("replace", FATES),
            ("draw", DRAWS),
            ("rounding", ROUNDINGS),
            ("format", (*STREAMS, *sentence_pairs.UNITS)),
            ("sentence", SENTENCES),
        ):
            if getattr(self, field) not in values:
                told = ", ".join(values[:-1]) + f" or {values[-1]}"
                raise ValueError(f"{field} is {told}, not {getattr(self, field)!r}")
        if self.sentence != "none" and self.format in STREAMS:
            raise ValueError(
                f"sentence {self.sentence} is asked of two spans: format is "
                f"{' or '.join(sentence_pairs.UNITS)}, not {self.format}"
            )

    def num_scored(self, length: int) -> int:
        """Places that are hidden at most: 20 at length 128, 77 at 512."""
        return math.ceil(self.rate * length - 1e-9)

    def text_spec(self, length: int) -> TextSpec:
        if self.format in STREAMS:
            return TextSpec(STREAMS[self.format], length - 2)
        return sentence_pairs.text_spec(self.sentence, self.format, length, self.short)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        """K: hidden places, shuffled ones, and a last one for the class token."""
        asked = self.sentence != "none"
        trigrams = int(num_trigrams(length, self.shuffle))
        count = self.num_scored(length) + 3 * trigrams + asked
        specs = input_specs(length) | scored_specs(count)
        if self.boundary:
            specs |= {name: ArraySpec((count,)) for name in ("left", "right", "offset")}
        return specs | (sentence_pairs.specs() if asked else {})

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides units of a row's tokens, never specials.

        Raises:
          UserError: the fields need entries of a data.lexicon that it does not have.
        """
        answer = {}
        if self.format in STREAMS:
            text = input_format.single(example, vocab, length)
        elif self.sentence == "none":
            text = input_format.pair(example, vocab, length)
        else:
            asked = sentence_pairs.ask(self.sentence, example, key)
            text = input_format.pair(example, vocab, length, asked.swapped)
            answer = {"label": asked.label, "label_weight": asked.label_weight}
        scored = self._hide(text, key, vocab)
        group = input_format.full(text.token, text.length) | {
            "token_type": text.token_type
        }
        return group | scored | answer

    def _hide(
        self, text: input_format.Text, key: np.ndarray, vocab: VocabInfo
    ) -> dict[str, np.ndarray]:
        """Overwrites `text.token`; the arrays of all scored places."""
        most = self.num_scored(text.token.shape[1])
        count = budget(text.length, self.rate, most, rounding=self.rounding, key=key)
        chosen = mask_units.choose(
            key,
            text,
            vocab,
            count,
            unit=self.unit,
            longest=self.longest,
            kinds=self.kinds,
        )
        free = ~vocab.is_special[text.token] & ~chosen
        hidden = hide(
            text.token,
            chosen,
            key,
            vocab,
            num_scored=most,
            mask=self.mask,
            random=self.random,
            replace=self.replace,
            draw=self.draw,
        )
        if self.boundary:
            hidden |= boundaries(hidden["scored"], hidden["weight"])
        if self.shuffle:
            num = num_trigrams(text.length, self.shuffle)
            most = int(num_trigrams(text.token.shape[1], self.shuffle))
            moved = shuffle(text.token, free, key, vocab, count=num, most=most)
            hidden = _join(hidden, moved)
        if self.sentence != "none":
            last = np.zeros((len(key), 1), np.int32)
            hidden = _join(hidden, {"target": last + vocab.pad_id})
        return hidden

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: model.token_types is 1, where pairs have two."""
        fields = {}
        if self.format not in STREAMS:
            input_format.check_token_types(options, 2)
        if self.sentence != "none":
            answers = sentence_pairs.ANSWERS[self.sentence]
            fields["heads"] = sentence_pairs.heads(self.sentence, answers)
        if self.boundary:
            fields["offsets"] = self.boundary
        return models.Transformer(
            options, size=vocab.size, pattern=self.pattern, transform=True, **fields
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: mlm; sbo (boundary); the sentence's; accuracies (not trained on)."""
        places = [batch["scored"]]
        if self.boundary:
            places += [batch["left"], batch["right"]]
        states = net.states(batch, scored=jnp.concatenate(places, axis=1))
        here, *sides = jnp.split(states, len(places), axis=1)
        terms = masked_cross_entropy("mlm", net.readout(here), batch)
        if self.boundary:
            offset = batch["offset"]
            weight = batch["weight"] * (offset < self.boundary)
            readout = net.boundary(*sides, offset)
            terms["sbo"] = cross_entropy(readout, batch["target"], weight)[0]
        if self.sentence != "none":
            logits = net.head(self.sentence, here[:, -1])
            terms |= sentence_pairs.score(self.sentence, logits, batch)
        return terms, ()


def _join(first: dict, second: dict) -> dict:
    """Arrays of scored places [B, K] side by side; what the second lacks is 0."""
    num_more = second["target"].shape[1]
    return {
        name: np.concatenate(
            [array, second.get(name, np.zeros((len(array), num_more), array.dtype))],
            axis=1,
        )
        for name, array in first.items()
    }
