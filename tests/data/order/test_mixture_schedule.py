"""A mixture's schedule keeps to its rates at all times and can be inverted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from research.contract.errors import UserError
from research.data.order.mixture_schedule import MAX_PERIOD, MIXINGS, make_schedule
from research.data.read.corpus import sampling_rates


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6))
@settings(max_examples=50, deadline=None)
def test_rates_are_met_exactly_and_at_all_times(parts):
    rates = [part / 40 for part in parts]
    schedule = make_schedule(rates)
    fraction = np.array(parts) / sum(parts)
    period = len(schedule.corpus)
    np.testing.assert_allclose(schedule.count, fraction * period, atol=1e-9)
    taken = (schedule.corpus[:, None] == np.arange(len(parts))).cumsum(0)
    due = (np.arange(period) + 1)[:, None] * fraction
    assert np.all(abs(taken - due) < 1)


def test_rates_of_a_long_period_are_rounded_to_the_longest():
    rates = [0.123456789, 1, 1e-3]
    schedule = make_schedule(rates)
    assert len(schedule.corpus) == MAX_PERIOD
    fraction = np.array(rates) / sum(rates)
    assert np.all(abs(schedule.count - fraction * MAX_PERIOD) <= 1)


@pytest.mark.parametrize("rate", [0, -1, 1e-9])
def test_a_rate_too_small_to_be_read_is_refused(rate):
    with pytest.raises(UserError, match=r"data\.mixture"):
        make_schedule([0.5, rate])


def test_each_corpus_is_read_in_order():
    schedule = make_schedule([0.5, 0.2, 0.3])
    corpus, corpus_counter = schedule.locate(np.arange(1000))
    for each in range(3):
        own = corpus_counter[corpus == each]
        np.testing.assert_array_equal(own, np.arange(len(own)))
    late = np.array([10**15 + 3])
    np.testing.assert_array_equal(
        schedule.locate(late)[0], schedule.locate(late % 10)[0]
    )


each_mixing = pytest.mark.parametrize("mixing", MIXINGS.values(), ids=MIXINGS)


@each_mixing
def test_a_run_is_of_one_corpus_whose_examples_follow_each_other(mixing):
    single, run = make_schedule([0.5, 0.2, 0.3]), mixing.run(7)
    corpus, own = make_schedule([0.5, 0.2, 0.3], run).locate(np.arange(run * 40))
    by_run, own_run = single.locate(np.arange(40))
    np.testing.assert_array_equal(corpus.reshape(40, run), by_run[:, None] + [0] * run)
    expected = own_run[:, None] * run + np.arange(run)
    np.testing.assert_array_equal(own.reshape(40, run), expected)


@each_mixing
def test_a_mixing_says_whether_its_runs_depend_on_the_batch(mixing):
    runs = {mixing.run(batch_size) for batch_size in range(1, 40)}
    assert mixing.depends_on_batch == (len(runs) > 1)


@each_mixing
def test_counter_is_the_inverse_of_locate(mixing):
    schedule = make_schedule([0.5, 0.2, 0.3], mixing.run(6))
    counter = np.arange(10**12, 10**12 + 57)
    np.testing.assert_array_equal(schedule.counter(*schedule.locate(counter)), counter)


@pytest.mark.parametrize(
    ("alpha", "expected"),
    [(0.7, [0.83366, 0.16634]), (0.3, [0.66614, 0.33386]), (1.0, [10 / 11, 1 / 11])],
)
def test_alpha_raises_the_rates_of_small_corpora(alpha, expected):
    rates = sampling_rates([100, 10], alpha)
    np.testing.assert_allclose(rates, expected, atol=5e-6)
    schedule = make_schedule(rates)
    np.testing.assert_allclose(
        schedule.count / schedule.count.sum(), expected, atol=1e-4
    )
