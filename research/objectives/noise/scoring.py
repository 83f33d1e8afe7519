"""Rows that score a text: corruption of given tokens."""

# B texts, R raw tokens, N rows

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from research.contract import scores
from research.contract.batch import WORD, Example
from research.contract.errors import UserError


class ScoreRows(NamedTuple):
    """Rows of a batch; the score of a text is minus the sum of its rows' losses."""

    text: np.ndarray  # [N] int64, the text whose tokens each row scores
    arrays: dict[str, np.ndarray]  # [N, ...], as `corrupt` returns them
    replicate: np.ndarray | None = None  # [N], of a sampled estimate: rows of a text
    # with the same number are one independent estimate, with equal weights that sum to
    # 1; None: nothing is sampled


class HiddenTokens(NamedTuple):
    """Rows, each with a hidden token or word of a text."""

    text: np.ndarray  # [N] int64
    first: np.ndarray  # [N] int64, the first hidden token
    mask: np.ndarray  # [N, R] bool, all hidden tokens


def hide_tokens(
    example: Example, scored: np.ndarray, *, rest_of_word: bool = False
) -> HiddenTokens:
    """One row per scored token, which is hidden in it.

    Args:
      scored: [B, R] bool.
      rest_of_word: also hide the later tokens of its word (Kauf and Ivanova 2023,
        PLL-word-l2r: adapted_minicons/scorer.py, "within_word_l2r"); False: only the
        token (Salazar et al. 2020: mlm-scoring, scorers.py, _ids_to_masked). Specials
        are never hidden or scored.
    """
    text, first = np.nonzero(scored)
    index = np.arange(scored.shape[1])
    if not rest_of_word:
        return HiddenTokens(text, first, index == first[:, None])
    same = _same_word(example, text, first)
    inside = index < example.length[text][:, None]
    return HiddenTokens(text, first, same & inside & (index >= first[:, None]))


def hide_words(example: Example, scored: np.ndarray) -> HiddenTokens:
    """One row per word with scored tokens, which are hidden in it."""
    word = _word_numbers(example)
    before = np.pad(np.where(scored, word, -1), [(0, 0), (1, 0)], constant_values=-1)
    text, first = np.nonzero(scored & (word != before[:, :-1]))
    return HiddenTokens(text, first, scored[text] & _same_word(example, text, first))


def _word_numbers(example: Example) -> np.ndarray:
    """[B, R] int64: the number of each token's word in its text."""
    return np.cumsum(example.flags & WORD > 0, axis=1)


def _same_word(example: Example, text: np.ndarray, first: np.ndarray) -> np.ndarray:
    """[N, R] bool: the tokens in the same word as token `first` [N] of `text` [N]."""
    word = _word_numbers(example)[text]
    return word == np.take_along_axis(word, first[:, None], axis=1)


HIDE: dict[str, Callable[[Example, np.ndarray], HiddenTokens]] = {
    "original": hide_tokens,
    "within_word_l2r": partial(hide_tokens, rest_of_word=True),
    "infill_words": hide_words,
    "infill_tokens": hide_tokens,
}
"""Score method -> a function of (example, scored) that chooses what to hide."""

INFILL_METHODS = {
    name: scores.PSEUDO_LIKELIHOOD for name in ("infill_words", "infill_tokens")
}
"""Score methods of encoder-decoders: a word (or a single token) is hidden from the
encoder, and the decoder predicts its tokens from left to right. This is Salazar et
al.'s pseudo-log-likelihood with the decoder as the predictor."""


def refuse(what: str) -> Any:
    """Raises UserError: this variant of an objective cannot score texts."""
    raise UserError(f"{what} gives texts no score: score a run of another variant")
