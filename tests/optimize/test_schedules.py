"""Learning rates by step: warm-ups, and decays at their corners."""

import dataclasses

import numpy as np
import pytest

from research.contract.errors import UserError
from research.contract.parts import key_fields
from research.optimize.options import OptimizerOptions
from research.optimize.rules import OPTIMIZERS
from research.optimize.schedule import make_schedule
from research.optimize.schedules import SCHEDULES
from research.optimize.schedules.shared.ending_schedule import EndingSchedule
from tests.testing.optimizer_section import section


@pytest.mark.parametrize("name", SCHEDULES.names())
def test_the_peak_is_reached_when_the_warm_up_ends(name):
    rate = make_schedule(
        section(schedule=name, warmup_steps=10, learning_rate=0.5), 100
    )
    rates = np.array([rate(step) for step in range(100)])
    assert rates[0] == pytest.approx(0.05)
    assert rates[9] == pytest.approx(0.5)
    assert rates[10] == pytest.approx(0.5)
    assert rates.argmax() in (9, 10)
    assert (np.diff(rates[:10]) > 0).all() and (np.diff(rates[10:]) <= 0).all()


ENDING = [
    name
    for name in SCHEDULES.names()
    if issubclass(SCHEDULES.part_class(name, "schedule"), EndingSchedule)
]


@pytest.mark.parametrize("name", ENDING)
@pytest.mark.parametrize("decay_fraction", [1.0, 0.5])
def test_the_decay_ends_with_the_run_and_stays_there(name, decay_fraction):
    keys = {"final_fraction": 0.1, "decay_fraction": decay_fraction}
    rate = make_schedule(
        section(schedule=name, warmup_steps=0, learning_rate=1.0, **keys), 50
    )
    assert rate(0) == pytest.approx(1) and rate(49) > 0.1
    assert [rate(step) for step in (50, 51, 60)] == pytest.approx(3 * [0.1])


@pytest.mark.parametrize("name", ["linear", "cosine"])
def test_a_line_and_half_a_cosine_are_halfway_after_half_of_the_steps(name):
    keys = {"schedule": name, "final_fraction": 0.1, "warmup_steps": 0}
    rate = make_schedule(section(learning_rate=1.0, **keys), 50)
    assert rate(25) == pytest.approx(0.55)


def test_rules_schedules_and_what_all_share_have_no_key_of_one_name():
    owners = {field.name: "OptimizerOptions" for field in key_fields(OptimizerOptions)}
    for folder in (OPTIMIZERS, SCHEDULES):
        parts = {name: folder.part_class(name, "optimizer") for name in folder.names()}
        own = {f.name: name for name in parts for f in dataclasses.fields(parts[name])}
        assert not {key: (own[key], owners[key]) for key in own.keys() & owners}
        owners |= own


def test_rsqrt_is_the_peak_times_sqrt_of_warm_up_over_step():
    rate = make_schedule(
        section(schedule="rsqrt", warmup_steps=10, learning_rate=1.0), 99
    )
    assert rate(40) == pytest.approx((10 / 40) ** 0.5)


def test_t5s_rate_is_constant_and_then_falls_with_the_square_root_of_the_step():
    """1 / sqrt(max(t, 10,000)) (Raffel et al. 2020, section 3.1.2)."""
    keys = dict(schedule="rsqrt", warmup="constant", warmup_steps=10_000)
    rate = make_schedule(section(learning_rate=0.01, **keys), 2**19)
    for step in (0, 1, 9_999, 10_000, 10_001, 250_000, 2**19 - 1):
        assert rate(step) == pytest.approx(max(step, 10_000) ** -0.5, rel=1e-6)


def test_the_rate_of_nnlm_is_halved_after_as_many_steps_as_its_divisor_says():
    """Bengio et al. 2003: 1e-3 / (1 + 1e-8 t), at t = 1e8 half."""
    keys = dict(schedule="inverse", warmup_steps=0, learning_rate=1e-3)
    rate = make_schedule(section(**keys, step_decay=1e-8), 10**9)
    assert rate(10**8) == pytest.approx(5e-4) and rate(0) == pytest.approx(1e-3)


def test_the_rate_of_cvt_falls_by_the_root_of_the_step():
    """Clark et al. 2018: 0.5 min(1, s / 5000) / (1 + 0.005 sqrt(s))."""
    keys = dict(schedule="inverse", decay_from="start", warmup="factor")
    keys |= dict(warmup_steps=5000, learning_rate=0.5, step_decay=0.005, step_power=0.5)
    rate = make_schedule(section(**keys), 10**6)
    expected = {
        **{0: 0, 1: 9.950249e-5, 1000: 0.08634729, 2500: 0.2, 5000: 0.36939806},
        **{20_000: 0.29289322, 400_000: 0.12012654},
    }
    for step, value in expected.items():
        assert rate(step) == pytest.approx(value, rel=1e-5)


def test_a_polynomial_decay_is_a_power_of_the_remaining_fraction():
    keys = dict(schedule="polynomial", power=2.0, final_fraction=0.1, warmup_steps=0)
    rate = make_schedule(section(learning_rate=1.0, **keys), 50)
    for step in (0, 10, 49, 50):
        assert rate(step) == pytest.approx(0.1 + 0.9 * (1 - step / 50) ** 2)


def test_berts_decay_counts_from_step_0_and_the_warm_up_replaces_its_start():
    """10 steps, 4 of them warm-up, peak 1 (google-research/bert, optimization.py)."""
    keys = dict(decay_from="start", warmup_steps=4, learning_rate=1.0)
    rate = make_schedule(section(schedule="linear", **keys), 10)
    expected = [0, 0.25, 0.5, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0]
    np.testing.assert_allclose([rate(step) for step in range(11)], expected, atol=1e-6)
    cosine = make_schedule(section(schedule="cosine", **keys), 10)
    assert cosine(2) == pytest.approx(0.5)
    assert cosine(5) == pytest.approx(0.5) and cosine(10) == pytest.approx(0, abs=1e-6)


def test_a_warm_up_from_zero_ends_where_the_decay_begins():
    """10 steps, 4 of them warm-up (transformers, get_linear_schedule_with_warmup)."""
    keys = dict(decay_from="warmup", warmup="from_zero", warmup_steps=4)
    rate = make_schedule(section(schedule="linear", learning_rate=1.0, **keys), 10)
    expected = [0, 0.25, 0.5, 0.75, *(np.arange(6, -1, -1) / 6)]
    np.testing.assert_allclose([rate(step) for step in range(11)], expected, atol=1e-6)


def test_electras_warm_up_is_a_factor_of_the_decay():
    """google-research/electra, model/optimization.py."""
    keys = dict(decay_from="start", warmup="factor", warmup_steps=4, learning_rate=1.0)
    rate = make_schedule(section(schedule="linear", **keys), 10)
    expected = [0, 0.25 * 0.9, 0.5 * 0.8, 0.75 * 0.7, 0.6, 0.5]
    np.testing.assert_allclose([rate(step) for step in range(6)], expected, atol=1e-6)


def test_a_warm_up_or_cooldown_as_long_as_the_run_is_refused():
    with pytest.raises(UserError, match=r"optimizer\.warmup_steps=100"):
        make_schedule(section(warmup_steps=100), 100)
    with pytest.raises(
        UserError, match=r"optimizer\.cooldown_steps=90 .* the 90 steps"
    ):
        make_schedule(section(warmup_steps=10, cooldown_steps=90), 100)


def test_a_cooldown_is_that_of_gpt_bert():
    """ltgoslo/gpt-bert, pretraining/utils.py, cosine_schedule_with_warmup_cooldown."""
    keys = dict(warmup="from_zero", warmup_steps=10, cooldown_steps=20)
    keys |= dict(schedule="cosine", final_fraction=0.1, learning_rate=1.0)
    rate = make_schedule(section(**keys), 100)

    def official(step):
        if step < 10:
            return step / 10
        if step >= 80:
            return 0.1 * (100 - step) / 20
        return 0.1 + 0.9 * 0.5 * (1 + np.cos(np.pi * (step - 10) / 90))

    steps = [0, 5, 10, 45, 79, 80, 90, 99]
    expected = [official(step) for step in steps]
    np.testing.assert_allclose([rate(s) for s in steps], expected, atol=1e-6)


@pytest.mark.parametrize("origin", ["warmup", "start"])
def test_the_rate_may_stay_at_its_peak_before_it_decays(origin):
    keys = {"learning_rate": 0.5, "warmup_steps": 20, "decay_from": origin}
    rate = make_schedule(section(decay_fraction=0.25, **keys), 100)
    decay_steps = 20 if origin == "warmup" else 25
    stable = [float(rate(step)) for step in range(20, 101 - decay_steps)]
    assert stable == pytest.approx([0.5] * len(stable))
    halfway = float(rate(100 - decay_steps / 2))
    assert halfway == pytest.approx(0.25) and float(rate(100)) == pytest.approx(0)


def test_a_cooldown_by_one_minus_sqrt_falls_fast_and_then_slowly():
    """1 - sqrt((n - (N - D)) / D) in the last D of N steps (Hägele et al. 2024)."""
    keys = dict(schedule="one_minus_sqrt", decay_fraction=0.2, warmup_steps=0)
    rate = make_schedule(section(learning_rate=2.0, **keys), 500)
    found = [float(rate(step)) for step in (0, 400, 401, 425, 450, 499, 500, 600)]
    expected = [2, 2, 1.8, 1.0, 0.5857864, 0.0100252, 0, 0]
    assert found == pytest.approx(expected, abs=1e-6)
    rate = make_schedule(section(learning_rate=2.0, final_fraction=0.1, **keys), 500)
    assert float(rate(425)) == pytest.approx(1.1) and rate(500) == pytest.approx(0.2)


def test_slanted_triangular_rates_are_those_of_ulmfit():
    """Howard and Ruder 2018, equation 3: cut_frac 0.1, ratio 32; fastai, CircularLR."""
    keys = dict(warmup="slanted", warmup_steps=20, final_fraction=1 / 32)
    rate = make_schedule(section(learning_rate=0.01, schedule="linear", **keys), 200)
    step = np.arange(201)
    part = np.where(step < 20, step / 20, 1 - (step - 20) / (20 * (1 / 0.1 - 1)))
    expected = 0.01 * (1 + part * (32 - 1)) / 32
    np.testing.assert_allclose([rate(s) for s in step], expected, rtol=1e-5)


def test_a_slanted_warm_up_needs_a_schedule_that_ends():
    with pytest.raises(UserError, match=r"schedule=rsqrt has no end"):
        make_schedule(section(warmup="slanted", schedule="rsqrt"), 500)
