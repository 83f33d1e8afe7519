"""The size of a table's differences relative to the variation between seeds.

Differences are paired by pretraining seed. The size is the mean of the seeds'
differences divided by their standard deviation (Cohen's d for pairs): the larger it
is, the fewer seeds are needed to detect it (docs/statistics.md). A row is equivalent
to its baseline if the 90 % interval of the difference lies within one standard
deviation of the baseline's seeds: two one-sided tests at 5 % (Schuirmann 1987). That
margin is itself estimated from these seeds.
"""

from collections.abc import Iterator

import numpy as np

from launch.reports.cells import Cell, Grid, by_seed
from launch.reports.tables import Table
from research.contract.errors import UserError
from research.evaluation.statistics import MIN_SEEDS, estimate

HEADER = (
    "column",
    "row",
    "difference",
    "SD over seeds",
    "difference / SD",
    "90 % interval",
    "SD of the baseline",
    "equivalent",
    "seeds",
    "seconds",
)


def effect_rows(table: Table, grid: Grid) -> list[tuple[str, ...]]:
    """The header, and a line for each tested cell that has a baseline.

    Cells with fewer than three shared seeds, or with two populations, have no line.

    Raises:
      UserError: no cell has a line.
    """
    lines = [
        line
        for column in table.columns
        if column.tested
        for row, cells in grid.items()
        if (cell := cells.get(column.name))
        and (other := grid.get(table.baseline_of(row), {}).get(column.name))
        and row != table.baseline_of(row)
        for line in _line(column.name, column.digits, row, cell, other)
    ]
    if not lines:
        raise UserError(
            "sizes of differences need three seeds, of a cell and of its baseline; no "
            "cell of this table has them"
        )
    return [HEADER, *lines]


def _line(
    column: str, digits: int, row: str, cell: Cell, other: Cell
) -> Iterator[tuple[str, ...]]:
    if cell.two_populations or other.two_populations:
        return
    own, baseline = by_seed(cell.numbers), by_seed(other.numbers)
    shared = sorted(own.keys() & baseline.keys())
    if len(shared) < MIN_SEEDS:
        return
    gaps = np.array([own[seed].mean() - baseline[seed].mean() for seed in shared])
    sd = float(gaps.std(ddof=1))
    mean, margin, _ = estimate(gaps, level=0.9)
    low, high = mean - margin, mean + margin
    spread = float(np.std([baseline[seed].mean() for seed in shared], ddof=1))
    seconds = [number.trial.result["wall_seconds"] for number in cell.numbers]

    def shown(value: float, more: int = 0) -> str:
        return f"{value:.{digits + more}f}"

    yield (
        column,
        row,
        shown(mean),
        shown(sd, 1),
        f"{round(mean / sd, 1) + 0.0:.1f}" if sd else "–",
        f"{shown(low)} to {shown(high)}",
        shown(spread, 1),
        "yes" if -spread < low and high < spread else "no",
        str(len(shared)),
        f"{np.median(seconds):.0f}",
    )
