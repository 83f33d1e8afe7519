"""Figures of the best rate or size: losses over it, with a parabola for each line."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from launch.reports import report_figures
from launch.reports.cells import Grid
from launch.reports.figures import ROW_COLORS, STYLE, pyplot, svg_element
from launch.reports.report_figures import Drawn
from launch.reports.tables import OptimumFigure, Rows, Table, trials_of
from launch.sweeps.trial import Trial
from research.evaluation.optimum import Optimum, exponent, find_optimum


class Line(NamedTuple):
    """The points of a line, and the least point of their parabola, if there is one."""

    points: dict[float, list[float]]  # place -> values, one for each seed
    optimum: Optimum | None


Panels = dict[str, dict[float, Line]]
"""Title -> number of a line -> the line."""


@dataclasses.dataclass(frozen=True)
class Figures(report_figures.Figures):
    """One for each of the table's `optima`."""

    def drawn(self, table: Table, grid: Grid, rows: Rows) -> Iterator[Drawn]:
        for number, figure in enumerate(table.optima, 1):
            if panels := found_optima(figure, trials_of(rows, figure.group)):
                image = draw_optima(figure, panels)
                yield Drawn(f"optima-{number}.svg", caption(figure, panels), image)


def found_optima(figure: OptimumFigure, trials: Sequence[Trial]) -> Panels:
    """The figure's lines, in the order of their numbers, of the trials that ended."""
    points: dict[str, dict[float, dict[float, list[float]]]] = {}
    for trial in trials:
        value = figure.value(trial)
        if value is not None and math.isfinite(value):
            lines = points.setdefault(figure.panel(trial), {})
            line = lines.setdefault(figure.line(trial), {})
            line.setdefault(figure.place(trial), []).append(value)
    return {
        title: {n: Line(line, find_optimum(line)) for n, line in sorted(lines.items())}
        for title, lines in points.items()
    }


def caption(figure: OptimumFigure, panels: Panels) -> str:
    """The caption, and where each line is least."""
    parts = [figure.caption]
    for title, lines in panels.items():
        found = {number: line.optimum for number, line in lines.items() if line.optimum}
        texts = [
            f"{figure.line_label} {number:.3g}: {_place_text(line.optimum)}"
            for number, line in lines.items()
        ]
        text = f"{title}: " if title else ""
        text += f"{figure.place_label} at the least {figure.value_label}: "
        text += f"{'; '.join(texts)}."
        if power := exponent(found):
            text += (
                f" It goes with {figure.line_label} to the power "
                f"{power[0]:.2f} ± {power[1]:.2f}."
            )
        parts.append(text)
    return " ".join(parts)


def _place_text(optimum: Optimum | None) -> str:
    if optimum is None:
        return "none within what was tried"
    bounded = optimum.low > 0 and math.isfinite(optimum.high)
    interval = f" [{optimum.low:.3g}, {optimum.high:.3g}]" if bounded else " (no bound)"
    return f"{optimum.place:.3g}{interval} ({optimum.value:.3f})"


def draw_optima(figure: OptimumFigure, panels: Panels) -> str:
    """An SVG element: a panel for each title, a color for each line.

    Dots are single runs, a star the parabola's least point, the bar its interval.
    """
    numbers = sorted({number for lines in panels.values() for number in lines})
    with pyplot.rc_context(STYLE):
        drawn, axes = pyplot.subplots(
            1,
            len(panels),
            figsize=(3.6 * len(panels) + 0.8, 3.2),
            sharey=True,
            squeeze=False,
        )
        for panel, (title, lines) in zip(axes.flat, panels.items(), strict=True):
            for number, line in lines.items():
                color = ROW_COLORS[numbers.index(number) % len(ROW_COLORS)]
                _draw_line(panel, line, color, f"{figure.line_label} {number:.3g}")
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter(lambda place, _: f"{place:g}")
            panel.set_title(title, loc="left")
            panel.set_xlabel(figure.place_label)
            panel.grid(axis="y")
        axes[0][0].set_ylabel(figure.value_label)
        axes[0][-1].legend(frameon=False, fontsize=8)
        return svg_element(drawn)


def _draw_line(panel, line: Line, color: str, label: str) -> None:
    x = [place for place, values in line.points.items() for _ in values]
    y = [value for values in line.points.values() for value in values]
    panel.plot(x, y, "o", color=color, ms=3.5, alpha=0.7, label=label)
    if optimum := line.optimum:
        places = _within(line.points, optimum)
        panel.plot(places, optimum.at(places), color=color, lw=1.2)
        panel.plot(optimum.place, optimum.value, "*", color=color, ms=9)
        if optimum.low > 0 and math.isfinite(optimum.high):
            ends = [optimum.low, optimum.high]
            panel.plot(ends, [optimum.value] * 2, color=color, lw=3, alpha=0.3)


def _within(points: Mapping[float, list[float]], optimum: Optimum) -> np.ndarray:
    """Places for the parabola, two of the tried ones on either side of its least."""
    tried = sorted(points)
    above = int(np.searchsorted(tried, optimum.place))
    low, high = tried[max(0, above - 2)], tried[min(len(tried) - 1, above + 1)]
    return np.geomspace(low, high, 60)
