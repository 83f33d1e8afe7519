"""Rows that score a text: corruption that is told what to hide."""

# B texts, R raw tokens, N rows

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from research.batch import WORD, Example
from research.errors import UserError

LIKELIHOOD, PSEUDO_LIKELIHOOD, ENERGY = "likelihood", "pseudo-likelihood", "energy"
"""What exp(score) is: p(text), by the chain rule; a product of p(part | all others); or
the exponential of minus a detector's energy, which is no probability of a text."""


class ScoreRows(NamedTuple):
    """Rows of a batch; the score of a text is minus what they add to the loss."""

    text: np.ndarray  # [N] int64, the text that each row scores a part of
    arrays: dict[str, np.ndarray]  # [N, ...], as `corrupt` returns them


class HiddenTokens(NamedTuple):
    """Rows, in each of which a token or a word of a text is hidden."""

    text: np.ndarray  # [N] int64
    first: np.ndarray  # [N] int64, the first hidden token
    mask: np.ndarray  # [N, R] bool, all hidden tokens


def hide_tokens(
    example: Example, scored: np.ndarray, *, rest_of_word: bool = False
) -> HiddenTokens:
    """A row for each scored token, which is hidden in it.

    Args:
      scored: [B, R] bool.
      rest_of_word: whether the later tokens of its word are hidden too (Kauf and
        Ivanova 2023, PLL-word-l2r: adapted_minicons/scorer.py, "within_word_l2r"), or
        only the token (Salazar et al. 2020: mlm-scoring, scorers.py, _ids_to_masked).
        Specials are neither hidden nor scored in either.
    """
    text, first = np.nonzero(scored)
    index = np.arange(scored.shape[1])
    if not rest_of_word:
        return HiddenTokens(text, first, index == first[:, None])
    same = _same_word(example, text, first)
    inside = index < example.length[text][:, None]
    return HiddenTokens(text, first, same & inside & (index >= first[:, None]))


def hide_words(example: Example, scored: np.ndarray) -> HiddenTokens:
    """A row for each word that has scored tokens, which are hidden in it."""
    word = _word_numbers(example)
    before = np.pad(np.where(scored, word, -1), [(0, 0), (1, 0)], constant_values=-1)
    text, first = np.nonzero(scored & (word != before[:, :-1]))
    return HiddenTokens(text, first, scored[text] & _same_word(example, text, first))


def _word_numbers(example: Example) -> np.ndarray:
    """[B, R] int64: the number of each token's word in its text."""
    return np.cumsum(example.flags & WORD > 0, axis=1)


def _same_word(example: Example, text: np.ndarray, first: np.ndarray) -> np.ndarray:
    """[N, R] bool: tokens of the word of the token `first` [N] of a text [N]."""
    word = _word_numbers(example)[text]
    return word == np.take_along_axis(word, first[:, None], axis=1)


HIDE: dict[str, Callable[[Example, np.ndarray], HiddenTokens]] = {
    "original": hide_tokens,
    "within_word_l2r": partial(hide_tokens, rest_of_word=True),
    "infill_words": hide_words,
    "infill_tokens": hide_tokens,
}
"""Score method -> what it hides, of (example, scored)."""

INFILL_METHODS = {"infill_words": PSEUDO_LIKELIHOOD, "infill_tokens": PSEUDO_LIKELIHOOD}
"""Of encoder-decoders: a word is hidden from the encoder and written by the decoder,
each token given those before it, which is within-word left to right; or single tokens.
It is Salazar et al.'s pseudo-log-likelihood, with the decoder as the predictor."""


def refuse(what: str) -> Any:
    """Raises UserError: this variant of an objective gives no score."""
    raise UserError(f"{what} gives texts no score: score a run of another variant")
