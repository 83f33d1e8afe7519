"""Attention masks that need two intervals of ranks, by definition and as arrays.

Each pattern draws one row of one segment, whose tokens are in any order.
"""

# L length of the row

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from research.contract.batch import INTERVAL_ARRAYS, input_specs
from research.objectives.lm import lm

Row = tuple[dict[str, np.ndarray], np.ndarray]
"""rank and the arrays of queries, [L] each; and the mask by definition, [L, L]."""


def block_diffusion(random: np.random.Generator) -> Row:
    """A noised text, then the text itself (Arriola et al. 2025, section 3.1).

    A clean token attends to the clean blocks up to its own; a noised one to the clean
    blocks before its own and to its own noised block.
    """
    num_blocks, size = random.integers(1, 5), random.integers(1, 4)
    block = np.tile(np.repeat(np.arange(num_blocks), size), 2)
    is_clean = np.arange(len(block)) >= num_blocks * size
    query, key = block[:, None], block[None]
    clean = is_clean[None] & np.where(is_clean[:, None], key <= query, key < query)
    noised = ~is_clean[None] & ~is_clean[:, None] & (key == query)
    own = np.where(is_clean, -1, num_blocks + block)
    arrays = {
        "rank": np.where(is_clean, block, num_blocks + block),
        "reach": np.where(is_clean, block, block - 1),
        "low2": own + is_clean,
        "reach2": own,
    }
    return arrays, clean | noised


def knowledge_tree(random: np.random.Generator) -> Row:
    """A sentence with branches at its words (K-BERT: Liu et al. 2020, section 3.4).

    A token sees another one if both are in the sentence, if both are in one branch, or
    if one is in a branch of the other's word.
    """
    num_words = random.integers(1, 5)
    word_of_branch = np.repeat(np.arange(num_words), random.integers(0, 3, num_words))
    num_branches = len(word_of_branch)
    words = np.repeat(np.arange(num_words), random.integers(1, 3, num_words))
    branches = np.repeat(np.arange(num_branches), random.integers(1, 3, num_branches))
    branch = np.append(np.full(len(words), -1), branches)
    word = np.append(words, word_of_branch[branches])
    in_trunk = branch < 0
    both = in_trunk & in_trunk[:, None]
    one = in_trunk ^ in_trunk[:, None]
    mask = both | (one & (word == word[:, None])) | (branch == branch[:, None])
    first = np.searchsorted(word_of_branch, word)
    last = np.searchsorted(word_of_branch, word, side="right") - 1
    arrays = {
        "rank": np.where(in_trunk, word, num_words + branch),
        "low": np.where(in_trunk, 0, word),
        "reach": np.where(in_trunk, num_words - 1, word),
        "low2": num_words + np.where(in_trunk, first, branch),
        "reach2": num_words + np.where(in_trunk, last, branch),
    }
    return arrays, mask


def global_tokens(random: np.random.Generator) -> Row:
    """Windows, and tokens that all attend to and that attend to all (Longformer:
    Beltagy et al. 2020, section 3.1).
    """
    length, window = random.integers(1, 14), random.integers(0, 4)
    index, is_global = np.arange(length), random.random(length) < 0.2
    mask = np.abs(index - index[:, None]) <= window
    mask |= is_global | is_global[:, None]
    arrays = {
        "rank": np.where(is_global, -1, index),
        "low": np.where(is_global, 0, index - window),
        "reach": np.where(is_global, length, index + window),
        "low2": np.full(length, -1),
        "reach2": np.full(length, -1),
    }
    return arrays, mask


def causal_window(random: np.random.Generator) -> Row:
    """The last few tokens."""
    length, window = random.integers(1, 14), random.integers(0, 4)
    index = np.arange(length)
    mask = (index <= index[:, None]) & (index >= index[:, None] - window)
    return {"rank": index, "low": index - window, "reach": index}, mask


PATTERNS: dict[str, Callable[[np.random.Generator], Row]] = {
    "block diffusion": block_diffusion,
    "knowledge tree": knowledge_tree,
    "global tokens": global_tokens,
    "causal window": causal_window,
}


def draw_rows(pattern: str, *, rows: int, length: int, seed: int = 0) -> Any:
    """Packed rows of a pattern, in any order within each segment, and padding.

    Returns:
      arrays [rows, length] with segments, and the mask [rows, length, length].
    """
    random = np.random.default_rng(seed)
    names = PATTERNS[pattern](random)[0]
    arrays = {name: np.zeros((rows, length), np.int32) for name in ("segment", *names)}
    mask = np.zeros((rows, length, length), bool)
    for row in range(rows):
        end = segment = 0
        while True:
            values, own_mask = PATTERNS[pattern](random)
            size = len(own_mask)
            if end + size > length:
                break
            order, inside = random.permutation(size), slice(end, end + size)
            segment += 1
            arrays["segment"][row, inside] = segment
            for name, value in values.items():
                arrays[name][row, inside] = value[order]
            mask[row, inside, inside] = own_mask[order][:, order]
            end += size
    return arrays, mask


@dataclass(frozen=True)
class SinkWindow(lm.Objective):
    """A language model that attends to the last tokens and to the first two of all
    (attention sinks: Xiao et al. 2024, section 3.2).
    """

    window: int = 3

    pattern = "general"

    def batch_spec(self, length):
        specs = input_specs(length, intervals=INTERVAL_ARRAYS)
        return super().batch_spec(length) | specs

    def corrupt(self, example, key, vocab, length):
        return with_sinks(super().corrupt(example, key, vocab, length), self.window)

    def prompt(self, texts, vocab):
        prompt = super().prompt(texts, vocab)
        return prompt._replace(group=with_sinks(prompt.group, self.window))


def with_sinks(group: dict, window: int) -> dict:
    """A causal group of which a query attends to its last tokens and to the sinks."""
    rank = group["rank"]
    low, low2 = rank - np.int32(window), np.zeros_like(rank)
    return group | {"low": low, "low2": low2, "reach2": np.minimum(rank, np.int32(1))}
