"""The best answer span over the windows of a question (google-research/bert)."""

# K starts, E ends of each

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """What a network says about one window over a context."""

    start: np.ndarray  # [K]: candidates for the answer's first position in the row
    end: np.ndarray  # [K, E]: for its last position, given the first
    score: np.ndarray  # [K, E] of both
    null: float  # the score of no answer
    position: int  # in the row, of the window's first token
    first: int  # the same token's number in the context
    size: int  # tokens of the context in the window


class Span(NamedTuple):
    """Tokens of the context, first and last, and their score."""

    first: int
    last: int
    score: float


def best_span(windows: Sequence[Window], *, max_answer: int) -> Span | None:
    """The candidate of the highest score; None if there is none.

    A candidate is in the context. Its start counts in the window alone in which it has
    most context (run_squad.py, write_predictions and _check_is_max_context).

    Args:
      max_answer: tokens of the span at most.
    """
    best = None
    for number, window in enumerate(windows):
        start_K1 = window.start[:, None] - window.position
        end_KE = window.end - window.position
        legal_KE = (start_K1 >= 0) & (start_K1 <= end_KE) & (end_KE < window.size)
        legal_KE &= end_KE < start_K1 + max_answer
        for row in np.flatnonzero(legal_KE.any(axis=1)):
            if _window_of(windows, window.first + start_K1[row, 0]) != number:
                legal_KE[row] = False
        if not legal_KE.any():
            continue
        score_KE = np.where(legal_KE, window.score, -np.inf)
        at = np.unravel_index(score_KE.argmax(), score_KE.shape)
        if best is None or score_KE[at] > best.score:
            first, last = window.first + start_K1[at[0], 0], window.first + end_KE[at]
            best = Span(int(first), int(last), float(score_KE[at]))
    return best


def _window_of(windows: Sequence[Window], token: int) -> int:
    """The window in which a token of the context has the most context."""

    def context(number: int) -> float:
        window = windows[number]
        left, right = token - window.first, window.first + window.size - 1 - token
        inside = left >= 0 and right >= 0
        return min(left, right) + 0.01 * window.size if inside else -np.inf

    return max(range(len(windows)), key=context)


def null_score(windows: Sequence[Window]) -> float:
    """The score of no answer: the smallest of the windows."""
    return min(window.null for window in windows)
