"""Sizes of differences: standard deviations of pairs, and equivalence."""

import types

import numpy as np
import pytest

from launch.reports import formats
from launch.reports.cells import Cell, Number
from launch.reports.effects import effect_rows
from launch.reports.tables import Column, Table
from research.contract.errors import UserError
from research.evaluation.statistics import Estimate

TABLE = Table(
    title="",
    row_header="row",
    note="",
    rows=lambda trials: {},
    columns=(
        Column("tags", "tags", "metrics.valid/accuracy", digits=1, tested=True),
        Column("cost", "tags", "train_seconds"),
    ),
    baseline="none",
)


def _cell(values, first_seed=0, at_frequencies=()):
    trials = [
        types.SimpleNamespace(
            pretraining_seed=seed,
            result={"wall_seconds": 2 * seed},
            pretraining=types.SimpleNamespace(
                done=True, knows_no_context=seed in at_frequencies
            ),
        )
        for seed in range(first_seed, first_seed + len(values))
    ]
    numbers = map(Number, trials, np.asarray(values, np.float64))
    return Cell(tuple(numbers), Estimate(0.0, 0.0, len(values)))


def _grid(**cells):
    return {row: {"tags": cell, "cost": cell} for row, cell in cells.items()}


def test_a_difference_is_in_units_of_its_seeds():
    grid = _grid(none=_cell([50, 52, 51]), lm=_cell([60, 61, 62]))
    ((*_,), line) = effect_rows(TABLE, grid)
    gaps = np.array([10, 9, 11])  # mean 10, SD 1; t(2) at 90 %: 2.920
    assert line[:5] == ("tags", "lm", "10.0", "1.00", "10.0")
    half = 2.9199856 * gaps.std(ddof=1) / np.sqrt(3)
    assert line[5] == f"{10 - half:.1f} to {10 + half:.1f}"
    assert line[6:] == ("1.00", "no", "3", "2")


@pytest.mark.parametrize(
    ("gaps", "word"),
    [
        ([0.1, 0.2, 0.0, 0.1], "yes"),
        ([0.9, 1.0, 1.1, 1.0], "yes"),  # within 1.29, though not 0
        ([-1.2, -1.3, -1.2, -1.3], "no"),
        ([3.0, -3.0, 2.0, -2.0], "no"),  # a mean of 0 that is not known well
    ],
)
def test_equivalent_is_an_interval_within_a_deviation_of_the_baseline(gaps, word):
    baseline = np.array([50.0, 51.0, 52.0, 53.0])  # SD 1.29
    grid = _grid(none=_cell(baseline), lm=_cell(baseline + gaps))
    assert effect_rows(TABLE, grid)[1][7] == word


def test_only_shared_seeds_of_one_population_count():
    grid = _grid(
        none=_cell([1, 2, 4, 5]),
        shifted=_cell([1, 2, 3, 4], first_seed=1),
        apart=_cell([1, 2, 3], first_seed=2),
        mixed=_cell([1, 2, 3, 4], at_frequencies=(2,)),
    )
    _, line = effect_rows(TABLE, grid)
    assert line[1] == "shifted"
    assert line[8] == "3"
    assert formats.effects(TABLE, grid).splitlines()[2].startswith("| tags")


def test_a_table_without_three_seeds_is_refused():
    grid = _grid(none=_cell([1, 2]), lm=_cell([3, 4]))
    with pytest.raises(UserError, match="three seeds"):
        effect_rows(TABLE, grid)
