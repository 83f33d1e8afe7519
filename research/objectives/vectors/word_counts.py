"""Functions of word counts: subsampling, the law of negatives, the Huffman tree.

All follow tmikolov/word2vec at 20c129a, word2vec.c, except that only ordinary words
count: the end of a sentence is not a word.
"""

# B batch, V vocabulary, C the longest code

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from research.contract.batch import VocabInfo
from research.contract.errors import UserError
from research.data import counter_rng


def once_for_each_vocabulary(make: Callable[..., Any]) -> Callable[..., Any]:
    """`make(vocab, ...)`, recomputed only if counts or arguments change."""
    last: list[Any] = []

    @functools.wraps(make)
    def made(vocab: VocabInfo, *args: Any) -> Any:
        if not last or last[0] is not vocab.token_count or last[1] != args:
            last[:] = vocab.token_count, args, make(vocab, *args)
        return last[2]

    return made


def word_counts(vocab: VocabInfo) -> np.ndarray:
    """[V] int64: how often each word occurs in the training text; 0: specials and unk.

    Raises:
      UserError: there are no counts, or fewer than two words have one.
    """
    if vocab.token_count is None:
        raise UserError(
            "word vectors need counts of words, which data.task does not have; set "
            "data.task= and give the text by data.corpus"
        )
    count = np.where(vocab.is_special, 0, vocab.token_count).astype(np.int64)
    count[vocab.unk_id] = 0
    if (count > 0).sum() < 2:
        raise UserError(
            "word vectors need a text with two words of its vocabulary, or more; raise "
            "data.vocabulary_size"
        )
    return count


@once_for_each_vocabulary
def keep_rates(vocab: VocabInfo, sample: float) -> np.ndarray:
    """[V]: sqrt(t N / c) + t N / c for count c of N; words with 1 or more are all kept.

    Words without a count are not kept. The paper has only the square root (Mikolov et
    al. 2013b, equation 5); the released code has this sum.

    Args:
      sample: t; 0: all words are kept.
    """
    count = word_counts(vocab)
    if not sample:
        return (count > 0).astype(float)
    ratio = sample * count.sum() / np.maximum(count, 1)
    return np.where(count > 0, np.sqrt(ratio) + ratio, 0.0)


class Alias(NamedTuple):
    """A distribution over words as a table for draws in constant time (Walker 1977).

    Slot n gives word n with probability `stay[n]`, else `other[n]`.
    """

    word: np.ndarray  # [W] int32, the words with a count
    stay: np.ndarray  # [W] float64
    other: np.ndarray  # [W] int32, index of a word


@once_for_each_vocabulary
def noise_law(vocab: VocabInfo, power: float) -> Alias:
    """The distribution of negatives: count ** power, normalised."""
    count = word_counts(vocab)
    word = np.flatnonzero(count).astype(np.int32)
    weight = count[word] ** float(power)
    stay = weight * (len(word) / weight.sum())
    other = np.arange(len(word), dtype=np.int32)
    low, high = ([*np.flatnonzero(part)] for part in (stay < 1, stay >= 1))
    while low and high:
        small, large = low.pop(), high[-1]
        other[small] = large
        stay[large] -= 1 - stay[small]
        if stay[large] < 1:
            low.append(high.pop())
    stay[[*low, *high]] = 1.0  # 1 up to rounding
    return Alias(word, stay, other)


def draw_words(law: Alias, key: np.ndarray, role: str, count: int) -> np.ndarray:
    """[B, count] int32: independent draws for each row with its key [B]."""
    slot = counter_rng.uniform(key, role, count) * len(law.word)
    index = slot.astype(np.int32)
    stays = slot - index < law.stay[index]
    return law.word[np.where(stays, index, law.other[index])]


def draw_negatives(
    law: Alias, key: np.ndarray, target: np.ndarray, count: int, *, redraw: bool
) -> np.ndarray:
    """[B, K, count] int32: negatives of targets [B, K].

    Args:
      redraw: draw again while a negative equals its target; if False it stays, and the
        loss leaves it out.
    """
    shape = (*target.shape, count)
    size = target.shape[1] * count
    found = draw_words(law, key, "negative", size).reshape(shape)
    number = 0
    while redraw and (same := found == target[..., None]).any():
        number += 1
        again = draw_words(law, key, f"negative {number}", size).reshape(shape)
        found = np.where(same, again, found)
    return found


class HuffmanCodes(NamedTuple):
    """The inner nodes from the root to each word, and the branch taken at each.

    Nodes are numbered in the order in which they were merged; the last is the root.
    """

    node: np.ndarray  # [V, C] int32, 0 beyond a code
    code: np.ndarray  # [V, C] int8: 0 or 1, -1 beyond a code


@once_for_each_vocabulary
def huffman_codes(vocab: VocabInfo, max_length: int) -> HuffmanCodes:
    """The codes of words by their counts (Huffman 1952).

    If counts are equal, an inner node is merged before a word. The second of two merged
    nodes has bit 1.

    Args:
      max_length: C.

    Raises:
      UserError: a code is longer than C.
    """
    count = word_counts(vocab)
    word = np.argsort(-count, kind="stable")[: (count > 0).sum()]
    num = len(word)
    weight = np.concatenate([count[word], np.zeros(num - 1, np.int64)])
    parent = np.zeros(2 * num - 1, np.int64)
    bit = np.zeros(2 * num - 1, np.int8)
    leaf, inner = num - 1, num
    for made in range(num, 2 * num - 1):
        for turn in (0, 1):
            is_leaf = leaf >= 0 and (inner >= made or weight[leaf] < weight[inner])
            least = leaf if is_leaf else inner
            leaf, inner = leaf - is_leaf, inner + (not is_leaf)
            weight[made] += weight[least]
            parent[least], bit[least] = made, turn
    depth = np.zeros(2 * num - 1, np.int64)
    node = np.zeros((2 * num - 1, max_length), np.int32)
    code = np.full((2 * num - 1, max_length), -1, np.int8)
    for child in range(2 * num - 3, -1, -1):
        above = parent[child]
        size = depth[above]
        if size == max_length:
            raise UserError(
                f"objective.max_code is {max_length}, but the text has rarer words, "
                "whose Huffman codes are longer; raise it"
            )
        node[child, :size], code[child, :size] = node[above, :size], code[above, :size]
        node[child, size], code[child, size] = above - num, bit[child]
        depth[child] = size + 1
    found = HuffmanCodes(
        np.zeros((vocab.size, max_length), np.int32),
        np.full((vocab.size, max_length), -1, np.int8),
    )
    found.node[word], found.code[word] = node[:num], code[:num]
    return found
