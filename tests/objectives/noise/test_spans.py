"""spans: noise masks have their distributions, and lengths leave room for them."""

import numpy as np
from scipy import stats

from research import objectives
from research.objectives.noise import spans
from tests.testing.example_batches import keys

SIGNIFICANCE = 1e-4


def test_iid_has_room_for_all_but_one_text_in_thirty_thousand():
    objective = objectives.make_objective("dae", noise_mask="iid")
    full = objective.lengths(512)
    draw = np.random.default_rng(0).random((30_000, full.raw)) < 0.15
    start = draw & ~np.pad(draw, [(0, 0), (1, 0)])[:, :-1]
    room = spans.max_iid_counts(full.raw, 0.15)
    over = (draw.sum(1) > room.hidden) | (start.sum(1) > room.spans)
    assert over.sum() <= 9  # two bounds, each passed by 3e-5 of the texts at most
    assert room.hidden + room.spans + 2 == full.target < 210


def test_tokens_without_room_stay_clear():
    room = spans.Counts(5, 3)
    num_raw = np.array([40, 40, 9])
    hidden = spans.iid_noise_mask(keys(3), num_raw, 40, 0.5, room)
    free = spans.iid_noise_mask(keys(3), num_raw, 40, 0.5, spans.Counts(40, 40))
    for row in range(3):
        kept = np.flatnonzero(hidden[row])
        np.testing.assert_array_equal(kept, np.flatnonzero(free[row])[: len(kept)])
        start = np.flatnonzero(np.diff(hidden[row].astype(int), prepend=0) == 1)
        assert len(kept) == 5 or len(start) == 3


def test_iid_tokens_are_hidden_independently():
    rows, raw, rate = 400, 250, 0.3
    num_raw = np.full(rows, raw)
    free = spans.Counts(raw, raw)
    hidden = spans.iid_noise_mask(keys(rows), num_raw, raw, rate, free)
    assert stats.binomtest(int(hidden.sum()), hidden.size, rate).pvalue > SIGNIFICANCE
    count = hidden.sum(axis=0)
    fit = (count - rows * rate) ** 2 / (rows * rate * (1 - rate))
    assert stats.chi2.sf(fit.sum(), raw) > SIGNIFICANCE  # each position equally often
    pairs = 2 * hidden[:, :-1:2] + hidden[:, 1::2]
    odds = np.array([0.49, 0.21, 0.21, 0.09]) * pairs.size
    assert stats.chisquare(np.bincount(pairs.reshape(-1)), odds).pvalue > SIGNIFICANCE


def test_suffix_lengths_are_uniform_with_the_rate_as_mean():
    rows, raw = 6000, 40
    suffix = spans.suffix_noise_mask(keys(rows), np.full(rows, raw), raw, 0.25).sum(
        axis=1
    )
    assert spans.max_suffix(raw, 0.25) == 19
    assert stats.chisquare(np.bincount(suffix)[1:]).pvalue > SIGNIFICANCE
    assert len(np.bincount(suffix)) == 20  # 1 to 19: the mean is 10
