"""The best answer span over the windows of a question (google-research/bert)."""

# L positions of a window

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Window(NamedTuple):
    """What a network says about one window over a context."""

    logits: np.ndarray  # [L, 2] of start and end
    null: float  # the score of no answer
    position: int  # in the row, of the window's first token
    first: int  # the same token's number in the context
    size: int  # tokens of the context in the window


class Span(NamedTuple):
    """Tokens of the context, first and last, and their score."""

    first: int
    last: int
    score: float


def best_span(
    windows: Sequence[Window], *, n_best: int, max_answer: int
) -> Span | None:
    """The span with the largest sum of start and end logit; None if there is none.

    Of each window its `n_best` starts and ends are combined. A start counts in the
    window alone in which it has most context (run_squad.py, write_predictions and
    _check_is_max_context).

    Args:
      max_answer: tokens of the span at most.
    """
    best = None
    for number, window in enumerate(windows):
        inside = window.logits[window.position : window.position + window.size]
        starts, ends = (
            np.argsort(-inside[:, side], kind="stable")[:n_best] for side in (0, 1)
        )
        for start in starts.tolist():
            if _window_of(windows, window.first + start) != number:
                continue
            for end in ends.tolist():
                if not start <= end < start + max_answer:
                    continue
                score = float(inside[start, 0] + inside[end, 1])
                if best is None or score > best.score:
                    best = Span(window.first + start, window.first + end, score)
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
