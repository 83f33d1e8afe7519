"""XLNet's spans are those of its released loop."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from research.data import counter_rng
from research.objectives.plm import xlnet_spans
from tests.testing.example_batches import keys


def choose_spans_by_loop(
    draw, start, candidate, begin, end, goal, max_span, context_ratio
):
    """XLNet's released loop on one part of a row, with the same random numbers."""
    odds = np.cumsum(1 / np.arange(1, max_span + 1))
    chosen = np.zeros(len(start), bool)
    position, step = begin, 0
    while chosen[begin:end].sum() < goal:
        n = 1 + int((draw[step, 0] >= odds[:-1] / odds[-1]).sum())
        n = min(n, goal - chosen[begin:end].sum())
        before = int(draw[step, 1] * context_ratio * n)
        first = position + before
        while first < end and not (
            start[first] and candidate[first : first + n].all() and first + n < end
        ):
            first += 1
        if first >= end:
            break
        chosen[first : first + n] = True
        position = first + n + context_ratio * n - before
        step += 1
    return chosen


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 999), st.integers(1, 70), st.integers(1, 5), st.integers(1, 6))
def test_spans_equal_the_released_loop(seed, length, max_span, context_ratio):
    key = keys(3, seed)
    start = counter_rng.uniform(key, "start", length) < 0.5
    candidate = counter_rng.uniform(key, "candidate", length) < 0.9
    cut = np.array([[0, length], [length // 2, length], [length // 3, length // 2]])
    begin = np.stack([0 * cut[:, 0], cut[:, 0]], axis=1)
    end = cut
    goal = (end - begin + 3) // 4
    chosen = xlnet_spans.choose_spans(
        key,
        "a",
        start,
        candidate,
        begin=begin,
        end=end,
        goal=goal,
        max_span=max_span,
        context_ratio=context_ratio,
    )
    draw = counter_rng.uniform(key, "a", 4 * (length + 1)).reshape(3, length + 1, 2, 2)
    for row in range(3):
        expected = np.zeros(length, bool)
        for part in range(2):
            expected |= choose_spans_by_loop(
                draw[row, :, part],
                start[row],
                candidate[row],
                begin[row, part],
                end[row, part],
                goal[row, part],
                max_span,
                context_ratio,
            )
        np.testing.assert_array_equal(chosen[row], expected)
