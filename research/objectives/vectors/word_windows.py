"""Words and their contexts: the rows that the objectives of word vectors share.

A row has L raw tokens. Unknown words are removed, and frequent ones at random
(subsampling), before windows are formed: the remaining words become adjacent. A
separator ends a sentence, which no window crosses. The window around each centre has a
size that is drawn uniformly from 1 to `window`, so that near words count more (Mikolov
et al. 2013a, section 3.2; tmikolov/word2vec at 20c129a, word2vec.c).

Each position attends only to itself: the state of a context is its word's vector.
"""

# B batch, L length, W window, J = 2 W offsets, K = L J pairs, N negatives, C code,
# R raw tokens of a row

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from research import objectives
from research.contract.batch import (
    ArraySpec,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.fields import choice, fraction, number
from research.data import counter_rng
from research.data.rows import TextSpec
from research.objectives.vectors import word_counts


class Words(NamedTuple):
    """The kept words of rows, without gaps."""

    token: np.ndarray  # [B, L] int32, pad beyond `length`
    sentence: np.ndarray  # [B, L] int32, number of the sentence; -1 beyond `length`
    length: np.ndarray  # [B] int64


@dataclass(frozen=True)
class WordWindows(objectives.Objective):
    """The base of `skipgram` and `cbow`: their fields, text and batch.

    Pair i J + j of a row is centre i and the context at the j-th of the offsets
    -W, ..., -1, 1, ..., W: `scored` is the context's position, `target` the centre.
    """

    window: int = number(5, least=1, most=128)  # the largest distance of a context
    subsample: float = fraction(1e-3)  # t: words more frequent than this fraction of
    # the text are removed at random, see `word_counts.keep_rates`; 0: none
    output: str = choice("negative_sampling", ("negative_sampling", "hierarchical"))
    # the loss; hierarchical: softmax over a Huffman tree
    negatives: int = number(5, least=1, most=1024)  # drawn for each prediction
    power: float = number(0.75, least=0, most=1)  # exponent of the counts in the
    # distribution of negatives
    equal_negatives: str = choice("skip", ("skip", "redraw"))  # a negative that equals
    # the target: left out (word2vec), or drawn again (fastText)
    max_code: int = number(40, least=1, most=64)  # longest code of the tree

    pattern = "self"
    min_length = 2  # a centre and a context

    def needs(self, vocab: VocabInfo) -> Any:
        """See `Objective.needs`.

        The nodes of a tree are not words and do not share their table.
        """
        return replace(super().needs(vocab), untied=self.output == "hierarchical")

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", length)

    def num_drawn_for(self, length: int) -> int:
        """Number of predictions of a row that have their own negatives."""
        return length

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = input_specs(length, intervals=("low",))
        specs |= scored_specs(length * 2 * self.window)
        if self.output == "hierarchical":
            node = ArraySpec((length, self.max_code))
            return specs | {"target_node": node, "target_code": node}
        drawn = (self.num_drawn_for(length), self.negatives)
        return specs | {"target_negative": ArraySpec(drawn)}

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        words = keep_words(example, key, vocab, length, self.subsample)
        token, num_rows = words.token, len(words.token)
        used = find_contexts(words, key, self.window).reshape(num_rows, -1)
        context = np.arange(length)[:, None] + offsets(self.window)
        target = np.repeat(token, 2 * self.window, axis=1)
        answers = {}
        if self.output == "hierarchical":
            codes = word_counts.huffman_codes(vocab, self.max_code)
            answers["target_node"] = codes.node[token]
            answers["target_code"] = codes.code[token].astype(np.int32)
        else:
            law = word_counts.noise_law(vocab, self.power)
            each = token if self.num_drawn_for(length) == length else target
            answers["target_negative"] = word_counts.draw_negatives(
                law, key, each, self.negatives, redraw=self.equal_negatives == "redraw"
            )
        is_text = words.sentence >= 0
        position = np.where(is_text, np.arange(length, dtype=np.int32), 0)
        return {
            "token": token,
            "position": position,
            "segment": is_text.astype(np.int32),
            "token_type": np.zeros_like(token),
            "rank": position,
            "reach": position.copy(),
            "low": position.copy(),
            "scored": np.where(used, context.reshape(1, -1), 0).astype(np.int32),
            "target": target,
            "weight": used.astype(np.float32),
            **answers,
        }


def offsets(window: int) -> np.ndarray:
    """[J]: -W, ..., -1, 1, ..., W."""
    each = np.arange(-window, window + 1)
    return each[each != 0]


def keep_words(
    example: Example, key: np.ndarray, vocab: VocabInfo, length: int, subsample: float
) -> Words:
    """The words of each row that are known and kept by subsampling."""
    raw = example.token[:, :length]
    here = np.arange(raw.shape[1]) < example.length[:, None]
    rate = word_counts.keep_rates(vocab, subsample)[raw]
    kept = here & (counter_rng.uniform(key, "subsample", raw.shape[1]) < rate)
    row, place = np.nonzero(kept)
    column = (np.cumsum(kept, axis=1) - 1)[row, place]
    token = np.full((len(raw), length), vocab.pad_id, np.int32)
    sentence = np.full(token.shape, -1, np.int32)
    token[row, column] = raw[row, place]
    number = np.cumsum(here & (raw == vocab.eos_id), axis=1)
    sentence[row, column] = number[row, place]
    return Words(token, sentence, kept.sum(axis=1))


def find_contexts(words: Words, key: np.ndarray, window: int) -> np.ndarray:
    """[B, L, J] bool: whether the word at an offset is a context of the centre."""
    num_rows, length = words.token.shape
    drawn = counter_rng.uniform(key, "window", length)
    reach = 1 + (drawn * window).astype(np.int32)
    padded = np.full((num_rows, length + 2 * window), -2, np.int32)
    padded[:, window : window + length] = words.sentence
    reach = np.where(words.sentence >= 0, reach, 0)
    found = [
        (abs(offset) <= reach)
        & (padded[:, window + offset : window + offset + length] == words.sentence)
        for offset in offsets(window).tolist()
    ]
    return np.stack(found, axis=2)
