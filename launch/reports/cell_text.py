"""The cells of a table as text: numbers, differences from the baseline, verdicts."""

import math

from launch.reports.cells import Cell, Grid
from launch.reports.tables import Column, Table
from research.evaluation.comparison import NOT_DECIDED, TOO_FEW
from research.evaluation.power import MAX_SEEDS
from research.evaluation.statistics import MIN_SEEDS, ROUNDING, Estimate

DASH = "–"
ONE_SEED_MARK, MIXED_MARK, OUTSIDE_MARK = "†", "‡", "§"


def format_number(value: float, digits: int) -> str:
    """A number with commas between thousands."""
    return f"{value:,.{digits}f}"


def format_cell(cell: Cell | None, digits: int) -> str:
    """A cell as plain text: mean, margin and the paper's number, if there are any."""
    if cell is None:
        return DASH
    if cell.finished:
        mean = math.fsum(cell.finished) / len(cell.finished)
        text = format_number(mean, digits)
        text += f" ({len(cell.finished)} of {cell.num_trials})"
    elif cell.missing:
        text = f"{DASH} {len(cell.missing)} of {cell.num_trials} runs missing"
    elif cell.diverged:
        text = f"{DASH} {len(cell.diverged)} of {cell.num_trials} runs diverged"
    elif shows_both(cell):
        text = ", ".join(format_number(value, digits) for value in cell.draws)
    else:
        text = mean_and_margin(cell.estimate, f",.{digits}f", digits)
    if cell.one_seed and cell.estimate.count > 1:
        text += f" {ONE_SEED_MARK}"
    if cell.mixed_data:
        text += f" {MIXED_MARK}"
    if cell.shares_outside_start:
        text += f" {OUTSIDE_MARK}"
    if cell.paper:
        number = format_number(cell.paper.number, digits)
        text += f" (paper: {' '.join([number, cell.paper.mark]).strip()})"
    return text


def shows_both(cell: Cell) -> bool:
    """True if a cell shows its two numbers instead of an interval.

    Student's t then has one degree of freedom: the interval would extend nine standard
    deviations to each side.
    """
    return len(cell.draws) == 2


def mean_and_margin(estimate: Estimate, mean_format: str, digits: int) -> str:
    """The mean ± its margin; only the mean if the margin is just rounding."""
    text = format(estimate.mean, mean_format)
    is_rounding = estimate.margin <= ROUNDING * abs(estimate.mean)  # all are equal
    if math.isnan(estimate.margin) or is_rounding:
        return text
    return f"{text} ± {format_number(estimate.margin, digits)}"


def format_difference(
    cell: Cell | None, digits: int, *, sign_alone: bool = False
) -> str:
    """The difference from the baseline, and the paper's difference if there is one.

    Args:
      sign_alone: show only the sign of the paper's difference: our data differ.
    """
    if cell is None or cell.comparison is None:
        return DASH
    difference = cell.comparison.difference
    if difference.count < MIN_SEEDS:
        difference = difference._replace(margin=math.nan)
    text = mean_and_margin(difference, f"+,.{digits}f", digits)
    if not cell.direction:
        return text
    number = f"{cell.direction:+,.{digits}f}"
    return f"{text} (paper: {number[0] if sign_alone else number})"


def format_verdict(cell: Cell | None) -> str:
    """The verdict, its corrected p, and if it is open the number of seeds needed."""
    if cell is None or cell.comparison is None:
        return DASH
    comparison, verdict = cell.comparison, cell.comparison.verdict(cell.direction)
    if verdict == TOO_FEW:
        return verdict
    text = f"{verdict}, p {format_p(comparison.adjusted_p)}"
    if verdict != NOT_DECIDED or math.isnan(comparison.adjusted_p):
        return text
    return f"{text}; needs {comparison.seeds_needed or f'> {MAX_SEEDS}'} seeds"


def format_p(p: float) -> str:
    """A p-value with three digits."""
    if math.isnan(p):  # all seeds have the same difference: see `paired_test`
        return "not defined"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def format_rows(table: Table, grid: Grid) -> list[list[str]]:
    """The header and the rows as text; a tested column is followed by its verdicts."""
    lines = [[table.row_header]]
    for column in table.columns:
        lines[0] += [column.header] + ["difference", "verdict"] * is_compared(
            table, column, grid
        )
    for row, cells in grid.items():
        line = [row]
        for column in table.columns:
            cell = cells[column.name]
            line.append(format_cell(cell, column.digits))
            if is_compared(table, column, grid):
                sign_alone = bool(column.stand_in)
                line.append(
                    format_difference(cell, column.digits, sign_alone=sign_alone)
                )
                line.append(format_verdict(cell))
        lines.append(line)
    return lines


def is_compared(table: Table, column: Column, grid: Grid) -> bool:
    """Whether a column shows differences and verdicts, which need three seeds."""
    if not (column.tested and table.all_baselines):
        return False
    cells = filter(None, (row[column.name] for row in grid.values()))
    verdicts = {cell.comparison.verdict() for cell in cells if cell.comparison}
    return verdicts != {TOO_FEW}
