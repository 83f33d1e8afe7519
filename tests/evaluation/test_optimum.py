"""The least point of losses along a number: exact, with an interval that covers it."""

import math

import numpy as np
import pytest

from research.evaluation.optimum import exponent, find_optimum

PLACES = [1e-3 * 2.0**n for n in range(5)]


def values(places, best, curvature=0.3):
    return {p: [4.0 + curvature * math.log(p / best) ** 2] for p in places}


@pytest.mark.parametrize("best", [2.5e-3, 4e-3, 6.7e-3])
def test_of_a_parabola_the_least_point_is_exact(best):
    found = find_optimum(values(PLACES, best))
    assert found.place == pytest.approx(best)
    assert found.value == pytest.approx(4.0)
    assert (found.low, found.high) == pytest.approx((best, best), rel=1e-5)
    np.testing.assert_allclose(
        found.at(np.array(PLACES)),
        [each for (each,) in values(PLACES, best).values()],
        atol=1e-9,
    )


def test_far_places_do_not_move_it():
    points = values(PLACES, 4e-3) | {1.0: [9.0], 1e-6: [7.0]}
    assert find_optimum(points).place == pytest.approx(4e-3)


@pytest.mark.parametrize("best", [1e-4, 1.0])
def test_no_least_point_beyond_what_was_tried(best):
    assert find_optimum(values(PLACES, best)) is None
    assert find_optimum({}) is None


def test_the_interval_covers_the_place_in_95_of_100_cases():
    rng = np.random.default_rng(0)
    covered, found = 0, 0
    for _ in range(1000):
        points = {
            place: list(each[0] + 0.03 * rng.standard_normal(3))
            for place, each in values(PLACES, 4.4e-3).items()
        }
        if optimum := find_optimum(points):
            found += 1
            covered += optimum.low <= 4.4e-3 <= optimum.high
    assert found > 990
    assert 0.93 < covered / found < 0.97


def test_an_exponent_with_its_interval():
    lines = {n: find_optimum(values(PLACES, 4e-3 * n**-0.5)) for n in (1, 2, 4)}
    assert exponent(lines) == pytest.approx((-0.5, 0.0), abs=1e-5)
    three = find_optimum(values(PLACES[:3], PLACES[1]))  # as many as coefficients
    assert exponent(lines | {8: three}) is None
    del lines[1]
    assert exponent(lines) is None
