"""Forest plots: a line for each difference and its interval, readable in grey."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from launch.reports.cells import Grid, compare_claims
from launch.reports.figures import STYLE, TEXT_COLOR, pyplot, svg_element
from launch.reports.tables import Table
from research.evaluation.comparison import NOT_DECIDED, TOO_FEW, Comparison
from research.evaluation.statistics import MIN_SEEDS, Estimate

DECIDED, OPEN = {"marker": "o"}, {"marker": "o", "markerfacecolor": "white"}
STYLES = {NOT_DECIDED: OPEN, TOO_FEW: OPEN | {"marker": "^"}}
STYLES |= {"reversed": {"marker": "s"}, "lower": {"marker": "s"}}
"""Verdict -> style of its marker; other verdicts have a filled circle."""


class Line(NamedTuple):
    """A difference, its verdict, and the paper's difference."""

    name: str
    difference: Estimate
    verdict: str
    paper: float = math.nan

    @property
    def has_interval(self) -> bool:
        """Whether there are enough seeds for an interval."""
        _, margin, count = self.difference
        return count >= MIN_SEEDS and not math.isnan(margin)


def draw_forest(groups: Mapping[str, Sequence[Line]]) -> str:
    """One panel for each group; its axis is labelled with the group's name."""
    heights = [0.3 * len(lines) + 0.75 for lines in groups.values()]
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            len(groups),
            1,
            figsize=(7.2, sum(heights)),
            height_ratios=heights,
            squeeze=False,
        )
        for (name, lines), (panel,) in zip(groups.items(), axes, strict=True):
            _draw_group(panel, name, lines)
        return svg_element(figure)


def _draw_group(panel: Any, name: str, lines: Sequence[Line]) -> None:
    for y, line in enumerate(reversed(lines)):
        _, (mean, margin, _), verdict, paper = line
        if line.has_interval:
            panel.plot([mean - margin, mean + margin], [y, y], color=TEXT_COLOR, lw=1.4)
        style = STYLES.get(verdict, DECIDED)
        panel.plot(mean, y, color=TEXT_COLOR, ms=5.5, ls="", **style)
        if not math.isnan(paper):
            panel.plot(paper, y, marker="D", color="#8a8f99", ms=4.5, ls="", mfc="none")
        panel.annotate(
            verdict,
            (1, y),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            annotation_clip=False,
        )
    panel.axvline(0, color=TEXT_COLOR, lw=0.8, ls=":")
    panel.set_yticks(range(len(lines)), [line.name for line in reversed(lines)])
    panel.set_ylim(-0.6, len(lines) - 0.4)
    panel.tick_params(axis="y", length=0)
    panel.spines["left"].set_visible(False)
    panel.set_xlabel(name)
    panel.grid(axis="x")


def legend(groups: Mapping[str, Sequence[Line]]) -> str:
    """The meaning of the marks that these groups have."""
    lines = [line for group in groups.values() for line in group]
    parts = []
    if any(line.has_interval for line in lines):
        parts.append("lines are 95 % confidence intervals")
    if any(line.verdict != TOO_FEW for line in lines):
        parts.append(
            "a filled mark is decided (a square: reversed or lower), an open one is not"
        )
    if any(line.verdict == TOO_FEW for line in lines):
        parts.append("a triangle has fewer than three seeds, too few for an interval")
    if any(not math.isnan(line.paper) for line in lines):
        parts.append("diamonds are the paper's")
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def difference_groups(table: Table, grid: Grid) -> dict[str, list[Line]]:
    """Tested column -> the difference of each row from its baseline."""
    groups = {}
    for column in table.columns:
        lines = []
        for row, cells in grid.items():
            cell = cells[column.name]
            if cell and cell.comparison:
                known = cell.direction and not column.stand_in
                paper = cell.direction if known else math.nan
                lines.append(_line(row, cell.comparison, cell.direction, paper))
        if lines:
            groups[f"{column.header}: difference from {table.baseline_text}"] = lines
    return groups


def claim_groups(table: Table, grid: Grid) -> dict[str, list[Line]]:
    """Column -> the runs' results for each comparison of the paper."""
    groups: dict[str, list[Line]] = {}
    columns = {column.name: column for column in table.columns}
    for claim, found in compare_claims(table, grid).items():
        column = columns[claim.column]
        paper = math.nan if column.stand_in else claim.difference
        name = f"{claim.better} over {claim.worse}"
        line = _line(name, found, claim.difference, paper)
        groups.setdefault(f"{column.header}: difference", []).append(line)
    return groups


def _line(name: str, found: Comparison, direction: float, paper: float) -> Line:
    return Line(name, found.difference, found.verdict(direction), paper)
