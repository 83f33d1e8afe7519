"""The best span over windows is that of a search over all spans."""

import itertools

import numpy as np
import pytest

from research.predictions.answer_spans import Window, best_span, null_score


def context_of(window, token):
    left, right = token - window.first, window.first + window.size - 1 - token
    return min(left, right) + 0.01 * window.size if min(left, right) >= 0 else -1


@pytest.mark.parametrize(
    ("seed", "max_answer"), [*itertools.product(range(8), (1, 3, 9))]
)
def test_the_best_span_is_that_of_an_exhaustive_search(seed, max_answer):
    rng = np.random.default_rng(seed)
    every = np.arange(14)
    windows = [
        Window(
            every,
            np.tile(every, (14, 1)),
            rng.normal(size=(14, 14)),
            float(rng.normal()),
            3,
            first,
            size,
        )
        for first, size in ((0, 9), (4, 9), (8, 5))
    ]
    found = []
    for window in windows:
        tokens = range(window.first, window.first + window.size)
        for start, end in itertools.product(tokens, tokens):
            own = max(windows, key=lambda w, start=start: context_of(w, start))
            if own is window and start <= end < start + max_answer:
                at = window.position - window.first
                found.append((window.score[start + at, end + at], start, end))
    score, start, end = max(found)
    best = best_span(windows, max_answer=max_answer)
    assert (best.first, best.last) == (start, end)
    assert best.score == pytest.approx(score)
    assert null_score(windows) == min(window.null for window in windows)
    outside = [window._replace(position=20) for window in windows]
    assert best_span(outside, max_answer=max_answer) is None
