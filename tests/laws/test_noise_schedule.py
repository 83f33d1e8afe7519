"""The contract of every schedule of noise; modules are found by listing the folder."""

import dataclasses
import inspect

import numpy as np
import pytest

from launch.key_docs import keys_of
from research import objectives
from research.contract.fields import check
from research.objectives.diffusion.schedules import FOLDER, Schedule
from tests.testing.example_batches import keys

KEYS = keys(64)
TIME = np.linspace(1e-3, 1, 64 * 3).reshape(64, 3)

each_schedule = pytest.mark.parametrize("name", FOLDER.names())


def make(name, **fields):
    return objectives.make_objective("masked_diffusion", schedule=name, **fields)


@each_schedule
def test_its_fields_are_keys_of_masked_diffusion(name):
    """They have comments, and are told where they are not read."""
    cls = FOLDER.part_class(name, "objective.schedule")
    check(cls())
    assert issubclass(cls, Schedule) and hash(cls()) is not None
    assert inspect.getmodule(cls).__doc__, (
        "the module says the schedule, and its source"
    )
    declared = {field.name: field for field in dataclasses.fields(make(name))}
    meanings = {key.name: key.meaning for key in keys_of(type(make(name)), "")}
    for field in dataclasses.fields(cls):
        needed, values = declared[field.name].metadata["read_with"]
        assert needed == "schedule" and name in values
        assert f"{name}: " in meanings[field.name], "a field has a comment"
    changed = {
        field.name: field.default / 2
        for field in dataclasses.fields(cls)
        if type(field.default) is float
    }
    assert make(name, **changed).noise_schedule == cls(**changed)


@each_schedule
def test_rates_and_weights_are_those_of_a_row_alone(name):
    schedule = make(name).noise_schedule
    rate, weight = schedule.noise(TIME, KEYS)
    assert rate.shape == weight.shape == TIME.shape
    assert (rate >= 0).all() and (rate <= 1).all()
    assert (weight >= 0).all() and np.isfinite(weight).all()
    if schedule.rate_is_time:
        np.testing.assert_array_equal(rate, TIME)
    for part in (slice(0, 1), slice(5, 9), slice(None, None, -1)):
        found = schedule.noise(TIME[part], KEYS[part])
        np.testing.assert_array_equal(found.rate, rate[part])
        np.testing.assert_array_equal(found.weight, weight[part])


@each_schedule
def test_weights_are_the_derivative_of_the_rate_over_it(name):
    """-alpha'(t) / (1 - alpha(t)), Sahoo et al. 2024, equation 10, by default."""
    t, step = np.linspace(0.1, 0.9, 64 * 3).reshape(64, 3), 1e-5
    schedule = make(name).noise_schedule
    (low, _), (rate, weight), (high, _) = (
        schedule.noise(t + shift, KEYS) for shift in (-step, 0, step)
    )
    slope = np.abs(high - low) / (2 * step)
    np.testing.assert_allclose(weight, slope / rate, rtol=1e-5)
