"""Sentence relations: how two spans, or the pieces of one, stand to each other.

Those of ERNIE 2.0 (Sun et al. 2020, 4.2.2) and of its forerunners, without masks.
"""

# B batch, L length, P pieces of a row

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from research import models
from research.batch import (
    SENTENCE,
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_specs,
)
from research.data import counter_rng
from research.data.corpora import lexicon as lexicons
from research.objectives.corruption import mask_units
from research.objectives.inputs import input_format, sentence_pairs
from research.objectives.losses.cross_entropy import Term

OF_PIECES = ("reorder", "discourse")


@dataclass(frozen=True)
class Objective:
    """TextSpec spans between bos and eos; the answer is read at bos.

    nsp, sop, sop_released, structural, distance: see `relations`.
    reorder: a passage is cut at sentences into 1 to `pieces` pieces, each followed by
      eos and all shuffled; the answer is their order, one of 1! + 2! + ... classes.
    discourse: of a sentence that begins with a connective of data.lexicon it is taken
      away and asked for; others have no answer.
    """

    relation: str = "nsp"  # nsp | sop | sop_released | structural | distance | reorder
    # | discourse
    format: str = "segment_pair"  # segment_pair | sentence_pair: what a span is, but
    # of reorder and discourse
    short: float = 0.1  # share of segment pairs that is made shorter
    pieces: int = 3  # of reorder, at most
    kind: str = "connective"  # of discourse: of the lexicon's entries

    family = "sentence"
    pattern = "full"
    supports_accumulation = True

    def __post_init__(self):
        known = (*sentence_pairs.ANSWERS, *OF_PIECES)
        if self.relation not in known:
            raise ValueError(f"relation is {', '.join(known)}, not {self.relation!r}")
        if self.format not in sentence_pairs.UNITS:
            told = " or ".join(sentence_pairs.UNITS)
            raise ValueError(f"format is {told}, not {self.format!r}")
        if not 0 <= self.short <= 1:
            raise ValueError(f"short is a share, not {self.short}")
        if not 1 <= self.pieces <= 6:
            raise ValueError(f"pieces are 1 to 6, not {self.pieces}")

    def text_spec(self, length: int) -> TextSpec:
        if self.relation == "reorder":
            return TextSpec("passage", length - 1 - self.pieces)
        if self.relation == "discourse":
            return TextSpec("sentence_pair", length - 3)
        return sentence_pairs.text_spec(self.relation, self.format, length, self.short)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return (
            input_specs(length) | sentence_pairs.specs() | {"scored": ArraySpec((1,))}
        )

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides how the spans stood in the text.

        Raises:
          UserError: discourse without a data.lexicon that has connectives.
        """
        if self.relation == "reorder":
            text, label, known = self._reorder(example, key, vocab, length)
        elif self.relation == "discourse":
            text, label, known = self._discourse(example, vocab, length)
        else:
            asked = sentence_pairs.ask(self.relation, example, key)
            text = input_format.pair(example, vocab, length, asked.swapped)
            label, known = asked.label, asked.label_weight
        return input_format.full(text.token, text.length) | {
            "token_type": text.token_type,
            "label": label.astype(np.int32),
            "label_weight": known.astype(np.float32),
            "scored": np.zeros((len(key), 1), np.int32),
        }

    def _reorder(self, example, key, vocab, length):
        """The text with its pieces shuffled, labels and whether there is one [B]."""
        num_raw = np.minimum(example.length, self.text_spec(length).length)
        start = (example.flags & SENTENCE) > 0
        start &= np.arange(start.shape[1]) < num_raw[:, None]
        start[:, :1] = False
        most = np.minimum(start.sum(axis=1) + 1, self.pieces)
        drawn = counter_rng.uniform(key, "pieces", 2)
        num = 1 + (drawn[:, 0] * most).astype(np.int64)
        cut = counter_rng.choose_subset(key, "cut", start, num - 1)
        place, used = input_format.slots(cut, self.pieces - 1)
        end = np.append(np.where(used, place, num_raw[:, None]), num_raw[:, None], 1)
        begin = np.pad(end[:, :-1], [(0, 0), (1, 0)])
        size = end - begin

        order = (drawn[:, 1] * _FACTORIAL[num]).astype(np.int64)
        label = _FIRST[num] + order
        shown = orders(self.pieces)[label]
        begin, size = (
            np.take_along_axis(x, shown, axis=1).astype(np.int64) for x in (begin, size)
        )
        opens = (vocab.bos_id, *[None] * (self.pieces - 1))
        text = input_format.compose(example, begin, size, vocab, length, opens=opens)
        text = text._replace(token_type=np.zeros_like(text.token_type))
        known = num_raw > 0
        return text, np.where(known, label, 0), known

    def _discourse(self, example, vocab, length):
        """The pairs without connective, labels and whether there is one [B]."""
        known, wanted = mask_units.lexicon(vocab, self.kind)
        entry = lexicons.match(
            example.token,
            example.flags,
            example.length,
            known,
            first=example.first_length,
        )
        first = example.first_length.astype(np.int64)
        num_raw = np.minimum(example.length, length - 3).astype(np.int64)
        last = example.token.shape[1] - 1
        opening = entry[np.arange(len(entry)), np.minimum(first, last)]
        gone = np.where(opening >= 0, known.size[opening], 0)
        has = (first > 0) & (opening >= 0) & wanted[opening] & (first + gone < num_raw)
        gone = np.where(has, gone, 0)
        label = np.where(has, (np.cumsum(wanted) - 1)[opening], 0)
        first = np.where(first > 0, np.minimum(first, num_raw), num_raw)
        begin = np.stack([0 * first, first + gone], axis=1)
        size = np.stack([first, num_raw - first - gone], axis=1)
        opens = (vocab.bos_id, None)
        text = input_format.compose(example, begin, size, vocab, length, opens=opens)
        return text, label, has

    def num_answers(self, vocab: VocabInfo) -> int:
        """Raises UserError: discourse without a data.lexicon that has connectives."""
        if self.relation == "reorder":
            return len(orders(self.pieces))
        if self.relation == "discourse":
            return int(mask_units.lexicon(vocab, self.kind)[1].sum())
        return sentence_pairs.ANSWERS[self.relation]

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: as `num_answers`, or model.token_types is 1 for pairs."""
        if self.relation != "reorder":
            input_format.check_token_types(options, 2)
        return models.Transformer(
            options,
            size=vocab.size,
            pattern=self.pattern,
            heads=sentence_pairs.heads(self.relation, self.num_answers(vocab)),
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: the relation's name, and its accuracy (not trained on)."""
        states = net.states(batch, scored=batch["scored"])
        logits = net.head(self.relation, states[:, 0])
        return sentence_pairs.score(self.relation, logits, batch), ()


_FACTORIAL = np.array([math.factorial(n) for n in range(7)])
_FIRST = np.cumsum(_FACTORIAL) - _FACTORIAL - 1
"""The first class of n pieces: those of fewer come before it."""


@functools.cache
def orders(pieces: int) -> np.ndarray:
    """[classes, P]: which piece stands where, for 1 to `pieces` pieces in turn.

    Orders of n pieces are sorted; pieces past the n-th are empty and stay.
    """
    return np.array(
        [
            [*order, *range(n, pieces)]
            for n in range(1, pieces + 1)
            for order in itertools.permutations(range(n))
        ]
    )
