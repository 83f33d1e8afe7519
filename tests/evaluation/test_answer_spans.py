"""The best span over windows is that of a search over all spans."""

import itertools

import numpy as np
import pytest

from research.evaluation.answer_spans import Window, best_span, null_score


def context_of(window, token):
    left, right = token - window.first, window.first + window.size - 1 - token
    return min(left, right) + 0.01 * window.size if min(left, right) >= 0 else -1


@pytest.mark.parametrize(
    ("seed", "max_answer"), [*itertools.product(range(8), (1, 3, 9))]
)
def test_the_best_span_is_that_of_an_exhaustive_search(seed, max_answer):
    rng = np.random.default_rng(seed)
    windows = [
        Window(rng.normal(size=(14, 2)), float(rng.normal()), 3, first, size)
        for first, size in ((0, 9), (4, 9), (8, 5))
    ]
    found = []
    for window in windows:
        tokens = range(window.first, window.first + window.size)
        for start, end in itertools.product(tokens, tokens):
            own = max(windows, key=lambda w, start=start: context_of(w, start))
            if own is window and start <= end < start + max_answer:
                at = window.position - window.first
                score = window.logits[start + at, 0] + window.logits[end + at, 1]
                found.append((score, start, end))
    score, start, end = max(found)
    best = best_span(windows, n_best=14, max_answer=max_answer)
    assert (best.first, best.last) == (start, end)
    assert best.score == pytest.approx(score)
    assert null_score(windows) == min(window.null for window in windows)
    few = best_span(windows, n_best=2, max_answer=max_answer)
    assert few is None or few.score <= best.score
