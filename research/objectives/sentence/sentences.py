"""Sentence-level tasks: the relation of two spans, or of the pieces of one text.

They are tasks of ERNIE 2.0 (Sun et al. 2020, 4.2.2) and earlier models, without masked
tokens.
"""

# B batch, L length, P pieces of a row

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    OTHER_DOCUMENT,
    SENTENCE,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
)
from research.contract.fields import choice, fraction, free_text, number
from research.data import counter_rng
from research.data.read import lexicon as lexicons
from research.data.rows import TextSpec
from research.objectives.layout import input_format, sentence_pairs
from research.objectives.losses.cross_entropy import Term
from research.objectives.noise import mask_units

MAX_PIECES = 6
TASKS = (*sentence_pairs.NUM_CLASSES, "reorder", "discourse")


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads spans between bos and eos; the class is predicted at bos.

    nsp, sop, sop_released, structural, distance: see `sentence_pairs`.
    reorder: a passage is cut at sentences into 1 to `max_pieces` pieces, which are
      followed by eos and shuffled; their order is one of 1! + 2! + ... classes.
    discourse: if the second sentence begins with a connective of data.lexicon, the
      connective is removed and is the class; other pairs have no label.
    """

    task: str = choice("nsp", TASKS)
    format: str = choice("segment_pair", tuple(sentence_pairs.PAIR_FORMATS))  # for
    # tasks on pairs; reorder and discourse have their own
    short_rate: float = fraction(0.1)  # fraction of segment pairs that are shortened
    max_pieces: int = number(3, least=1, most=MAX_PIECES)  # for task reorder
    entry_type: str = free_text("connective")  # for task discourse: the lexicon type of
    # connectives

    pattern = "full"
    shown_answers: ClassVar = {
        "reorder": "separators show the number of pieces, which is part of the class"
    }

    @property
    def min_length(self) -> int:
        """Specials and one token per piece; for discourse also a connective."""
        if self.task == "reorder":
            return self.max_pieces + 2
        return sentence_pairs.MIN_LENGTH + (self.task == "discourse")

    def text_spec(self, length: int) -> TextSpec:
        if self.task == "reorder":
            return TextSpec("passage", length - 1 - self.max_pieces)
        if self.task == "discourse":
            return TextSpec("sentence_pair", length - 3)
        return sentence_pairs.text_spec(self.task, self.format, length, self.short_rate)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        scored = {"scored": ArraySpec((1,))}
        return input_specs(length) | sentence_pairs.label_specs() | scored

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides the relation of the spans.

        Raises:
          UserError: task discourse, but data.lexicon has no connectives.
        """
        if self.task == "reorder":
            text, label, weight = self._reorder(example, key, vocab, length)
        elif self.task == "discourse":
            text, label, weight = self._discourse(example, vocab, length)
        else:
            swapped, label, weight = sentence_pairs.make_labels(self.task, example, key)
            text = input_format.pair(example, vocab, length, swapped)
        return input_format.full_input(text.token, text.length) | {
            "token_type": text.token_type,
            "label": label.astype(np.int32),
            "label_weight": weight.astype(np.float32),
            "scored": np.zeros((len(key), 1), np.int32),
        }

    def _reorder(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> tuple[input_format.Text, np.ndarray, np.ndarray]:
        """The text with shuffled pieces; label and has_label [B]."""
        num_raw = np.minimum(example.length, self.text_spec(length).length)
        start = (example.flags & SENTENCE) > 0
        start &= np.arange(start.shape[1]) < num_raw[:, None]
        start[:, :1] = False
        max_num = np.minimum(start.sum(axis=1) + 1, self.max_pieces)
        drawn = counter_rng.uniform(key, "pieces", 2)
        num = 1 + (drawn[:, 0] * max_num).astype(np.int64)
        cut = counter_rng.choose_subset(key, "cut", start, num - 1)
        position, used = input_format.scored_positions(cut, self.max_pieces - 1)
        end = np.where(used, position, num_raw[:, None])
        end = np.append(end, num_raw[:, None], 1)
        begin = np.pad(end[:, :-1], [(0, 0), (1, 0)])
        size = end - begin

        order = (drawn[:, 1] * _FACTORIAL[num]).astype(np.int64)
        label = _FIRST_CLASS[num] + order
        piece = piece_orders(self.max_pieces)[label]
        begin, size = (
            np.take_along_axis(x, piece, axis=1).astype(np.int64) for x in (begin, size)
        )
        prefixes = (vocab.bos_id, *[None] * (self.max_pieces - 1))
        text = input_format.concatenate_spans(
            example, begin, size, vocab, length, prefixes=prefixes
        )
        text = text._replace(token_type=np.zeros_like(text.token_type))
        has_label = num_raw > 0
        return text, np.where(has_label, label, 0), has_label

    def _discourse(
        self, example: Example, vocab: VocabInfo, length: int
    ) -> tuple[input_format.Text, np.ndarray, np.ndarray]:
        """The pairs without their connective; label and has_label [B]."""
        lexicon, selected = mask_units.select_entries(vocab, self.entry_type)
        entry = lexicons.match(
            example.token,
            example.flags,
            example.length,
            lexicon,
            eos_id=vocab.eos_id,
            first=example.first_length,
        )
        first = example.first_length.astype(np.int64)
        num_raw = np.minimum(example.length, length - 3).astype(np.int64)
        last = example.token.shape[1] - 1
        second = np.arange(len(entry)), np.minimum(first, last)
        connective = entry[second]
        removed = np.where(connective >= 0, lexicon.size[connective], 0)
        has_label = (first > 0) & (connective >= 0) & selected[connective]
        # A pair that was too long for its row may have lost the start of its second.
        has_label &= (example.flags[second] & SENTENCE) > 0
        has_label &= first + removed < num_raw
        has_label &= example.label != OTHER_DOCUMENT
        removed = np.where(has_label, removed, 0)
        label = np.where(has_label, (np.cumsum(selected) - 1)[connective], 0)
        first = np.where(first > 0, np.minimum(first, num_raw), num_raw)
        begin = np.stack([0 * first, first + removed], axis=1)
        size = np.stack([first, num_raw - first - removed], axis=1)
        prefixes = (vocab.bos_id, None)
        text = input_format.concatenate_spans(
            example, begin, size, vocab, length, prefixes=prefixes
        )
        return text, label, has_label

    def num_classes(self, vocab: VocabInfo) -> int:
        """Raises UserError: task discourse, but data.lexicon has no connectives."""
        if self.task == "reorder":
            return len(piece_orders(self.max_pieces))
        if self.task == "discourse":
            return int(mask_units.select_entries(vocab, self.entry_type)[1].sum())
        return sentence_pairs.NUM_CLASSES[self.task]

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: as `num_classes`."""
        return networks.Needs(
            pattern=self.pattern,
            heads=sentence_pairs.pooled_head(self.task, self.num_classes(vocab)),
            token_types=2 * (self.task != "reorder"),
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: the task's name; its accuracy (a metric)."""
        states = net.states(batch, scored=batch["scored"])
        logits = net.head(self.task, states[:, 0])
        return sentence_pairs.label_terms(self.task, logits, batch), ()


_FACTORIAL = np.array([math.factorial(n) for n in range(MAX_PIECES + 1)])
_FIRST_CLASS = np.cumsum(_FACTORIAL) - _FACTORIAL - 1
"""The first class of n pieces, after the classes of fewer pieces."""


@functools.cache
def piece_orders(max_pieces: int) -> np.ndarray:
    """[classes, P]: the order of the pieces for each class.

    The orders of 1, 2, ... `max_pieces` pieces follow each other, each group sorted;
    pieces after the n-th are empty and keep their index.
    """
    return np.array(
        [
            [*order, *range(n, max_pieces)]
            for n in range(1, max_pieces + 1)
            for order in itertools.permutations(range(n))
        ]
    )
