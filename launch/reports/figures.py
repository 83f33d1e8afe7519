"""The figures of a report as SVG: learning curves, and bars with intervals."""

import io
import math
import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any, Protocol

import matplotlib
import numpy as np

from launch.reports.cell_text import shows_both
from launch.reports.cells import Grid
from launch.reports.run_costs import UNITS, axis_unit, cost_of_steps
from launch.reports.run_differences import Run
from launch.reports.tables import Curve, Rows, Table
from launch.sweeps.trial import Trial
from research.metrics import HIGHER
from research.record.metric_writer import BEST_STEP

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.figure import Figure

TEXT_COLOR, GRID_COLOR = "#1f2430", "#d9dce3"
ROW_COLORS = (
    "#2f6db5",
    "#e0803a",
    "#3c9a5f",
    "#b3446c",
    "#7a5fb0",
    "#8a8f99",
    "#c2a02e",
)
DASHES = ("-", "--", ":", "-.")
MOST_PANELS = 6
"""Panels in a line, at most."""
MOST_OVERLAID = 3
"""Panels in a line, at most, if each panel has all rows."""
LEAST_PANEL_INCHES = 1.6
"""The smallest width of a panel in a PDF."""
LABEL_LETTERS = 72
"""Letters in a line of a legend below a panel, at most."""

STYLE = {
    "axes.edgecolor": GRID_COLOR,
    "axes.labelcolor": TEXT_COLOR,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "text.parse_math": False,
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.size": 9,
    "grid.color": GRID_COLOR,
    "grid.linewidth": 0.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "palimpsest",
    "text.color": TEXT_COLOR,
    "xtick.color": TEXT_COLOR,
    "ytick.color": TEXT_COLOR,
}


def row_color(rows: Iterable[str], row: str) -> str:
    """The color of a row, the same in every figure."""
    return ROW_COLORS[list(rows).index(row) % len(ROW_COLORS)]


def draw_curves(
    rows: Rows, curve: Curve, *, inches: float = 0.0, one_panel: bool = False
) -> Any:
    """One panel for each row: metrics of its trials over tokens, FLOPs or time.

    Losses of different objectives are not comparable: each panel has its own scale.

    Args:
      inches: the width of a PDF; 0: an SVG element.
      one_panel: all rows are in one panel, with only the last of the metrics.
    """
    drawn = [row for row in rows if rows[row].get(curve.group)]
    if one_panel:
        return _draw_one_panel({row: rows[row] for row in drawn}, rows, curve, inches)
    width = min(len(drawn), MOST_PANELS)
    if inches:
        width = min(width, max(1, int(inches / LEAST_PANEL_INCHES)))
    height = math.ceil(len(drawn) / width)
    unit, factor = _axis_unit(rows, curve)
    with pyplot.rc_context(_style(inches)):
        figure, axes = pyplot.subplots(
            height,
            width,
            figsize=(inches or 2.15 * width + 0.4, 2.1 * height + 0.3),
            squeeze=False,
        )
        for row, panel in zip(drawn, axes.flat, strict=False):
            for trial in rows[row][curve.group]:
                _draw_trial(panel, trial, curve, row_color(rows, row), factor)
            panel.set_title(textwrap.fill(row, 22), loc="left")
            panel.grid(axis="y")
            panel.set_xlabel(unit)
        for panel in list(axes.flat)[len(drawn) :]:
            panel.set_axis_off()
        handles, names = axes[0][0].get_legend_handles_labels()
        legend = dict(zip(names, handles, strict=True))  # once, not for each trial
        axes[0][width - 1].legend(legend.values(), legend, frameon=False, fontsize=8)
        return _finished(figure, inches)


def _draw_one_panel(drawn: Rows, rows: Rows, curve: Curve, inches: float) -> Any:
    """Draws all rows in one panel, each with its own color and dash."""
    last = curve._replace(metrics=curve.metrics[-1:])
    unit, factor = _axis_unit(rows, curve)
    with pyplot.rc_context(_style(inches)):
        figure, panel = pyplot.subplots(figsize=(inches or 5.6, 0.62 * inches or 3.4))
        for number, (row, groups) in enumerate(drawn.items()):
            for trial in groups[curve.group]:
                _draw_trial(panel, trial, last, row_color(rows, row), factor)
                line, dash = panel.lines[-1], DASHES[number // len(ROW_COLORS) % 4]
                marker = _marker(line.get_xdata())
                line.set(label=row, linestyle=dash, marker=marker, linewidth=1.2)
        panel.set_xlabel(unit)
        panel.set_ylabel(*last.metrics)
        panel.grid(axis="y")
        handles, names = panel.get_legend_handles_labels()
        legend = dict(zip(names, handles, strict=True))
        panel.legend(legend.values(), legend, frameon=False, fontsize=7)
        return _finished(figure, inches)


def _axis_unit(rows: Rows, curve: Curve) -> tuple[str, float]:
    """The unit of the curve's horizontal axis, and how many make one unit of UNITS."""
    trials = [t for groups in rows.values() for t in groups.get(curve.group, ())]
    costs = [cost_of_steps(t.folder, t.metrics, curve.over)[1][-1] for t in trials]
    return axis_unit(UNITS[curve.over], max(costs))


def _marker(points: Sized) -> str:
    """A marker for a curve of one point, which would be invisible as a line."""
    return "o" if len(points) == 1 else ""


def _style(inches: float) -> dict[str, Any]:
    """The style of a figure; letters in a PDF have the sizes of a paper's column."""
    sizes = {"font.size": 7.5, "axes.titlesize": 8, "pdf.fonttype": 42}
    return STYLE | (sizes if inches else {})


def _finished(figure: Any, inches: float) -> Any:
    return image_bytes(figure, "pdf") if inches else svg_element(figure)


class OverlaidCurve(Protocol):
    """A curve of a run, as `palimpsest curves` reads it."""

    row: str
    panel: str
    points: dict[float, float]


def draw_overlaid(curves: Sequence[OverlaidCurve], x_label: str, form: str) -> bytes:
    """The image of `overlaid_figure`; `form` is "svg", "png" or "pdf"."""
    return image_bytes(overlaid_figure(curves, x_label), form)


def overlaid_figure(curves: Sequence[OverlaidCurve], x_label: str) -> Figure:
    """A panel for each title, with all of its curves; the names of rows are below.

    A row has the same color in all panels; if it has several seeds, lines are thin.
    """
    titles = [*dict.fromkeys(curve.panel for curve in curves)]
    drawn = Counter((curve.panel, curve.row) for curve in curves)
    rows = [*dict.fromkeys(curve.row for curve in curves)]
    labels = {row: textwrap.fill(row, LABEL_LETTERS) for row in rows}
    num_lines = sum(label.count("\n") + 1 for label in labels.values())
    width = min(len(titles), MOST_OVERLAID)
    height = math.ceil(len(titles) / width)
    with pyplot.rc_context(STYLE):
        size = (5.6, 3.6, 3.4)[width - 1] * width, (3.2 if width == 1 else 2.6) * height
        figure, axes = pyplot.subplots(
            height, width, figsize=(size[0], size[1] + 0.16 * num_lines), squeeze=False
        )
        panels = dict(zip(titles, axes.flat, strict=False))
        handles = {}
        for curve in curves:
            number, several = rows.index(curve.row), drawn[curve.panel, curve.row] > 1
            (handles[labels[curve.row]],) = panels[curve.panel].plot(
                [*curve.points],
                [*curve.points.values()],
                color=ROW_COLORS[number % len(ROW_COLORS)],
                ls=DASHES[number // len(ROW_COLORS) % len(DASHES)],
                lw=0.8 if several else 1.4,
                marker=_marker(curve.points),
                markersize=4,
            )
        for title, panel in panels.items():
            panel.set_title(title, loc="left")
            panel.set_xlabel(x_label)
            panel.set_xlim(left=0)
            panel.locator_params(axis="x", nbins=5)
            panel.grid(axis="y")
        for panel in list(axes.flat)[len(titles) :]:
            panel.set_axis_off()
        figure.legend(
            handles.values(),
            handles,
            loc="outside lower left",
            frameon=False,
            fontsize=8,
        )
        return figure


def draw_frontier(
    names: Sequence[str],
    values: Sequence[tuple[float, float | None]],
    panels: Mapping[str, Sequence[float]],
    metric: str,
    better: str,
) -> str:
    """One panel for each cost: the networks' values over their costs, and the frontier.

    Args:
      values: value of each network, and the margin of its interval if it has one.
      panels: name of a cost -> the cost of each network.
      better: of research.metrics, HIGHER or LOWER.
    """
    means = [mean for mean, _ in values]
    with pyplot.rc_context(STYLE):
        size = 3.6 * len(panels) + 0.4, 2.9
        figure, axes = pyplot.subplots(1, len(panels), figsize=size, squeeze=False)
        for panel, (name, costs) in zip(axes.flat, panels.items(), strict=True):
            best = frontier(costs, means, 1 if better == HIGHER else -1)
            x, y = [costs[n] for n in best], [means[n] for n in best]
            panel.plot(x, y, color=ROW_COLORS[5], lw=1, ls="--")
            for row, cost, (mean, margin) in zip(names, costs, values, strict=True):
                color = row_color(names, row)
                panel.errorbar(cost, mean, yerr=margin, fmt="o", color=color, ms=4)
                at = {"xytext": (5, 4), "textcoords": "offset points"}
                panel.annotate(row, (cost, mean), fontsize=7, color=color, **at)
            panel.set_xlabel(name)
            panel.set_xlim(left=0)
            panel.grid(axis="y")
        axes[0][0].set_ylabel(metric)
        return svg_element(figure)


def draw_runs(runs: Sequence[Run], names: Sequence[str], form: str) -> bytes:
    """The metrics of two runs over steps, one panel for each metric.

    Args:
      form: the image's format, "svg" or "png".
    """
    with pyplot.rc_context(STYLE):
        size = 3.6 * max(1, len(names)) + 0.4, 2.8
        figure, axes = pyplot.subplots(1, max(1, len(names)), figsize=size)
        for name, panel in zip(names, np.atleast_1d(axes), strict=False):
            for run, color, dash in zip(runs, ROW_COLORS, ("-", "--"), strict=False):
                points = run.curve(name)
                shown = {"color": color, "ls": dash, "label": run.name}
                shown["marker"] = _marker(points)
                panel.plot([*points], [*points.values()], **shown)
            panel.set_title(name, loc="left")
            panel.set_xlabel("step")
            panel.grid(axis="y")
        if names:
            np.atleast_1d(axes)[0].legend(frameon=False, fontsize=8)
        return image_bytes(figure, form)


def image_bytes(figure: Any, form: str) -> bytes:
    """A figure as a file; the bytes of "svg" and "pdf" are deterministic."""
    out = io.BytesIO()
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with pyplot.rc_context(STYLE):
        figure.savefig(out, format=form, metadata=dates.get(form, {}), dpi=150)
    pyplot.close(figure)
    return out.getvalue()


def _draw_trial(
    panel: Any, trial: Trial, curve: Curve, color: str, factor: float
) -> None:
    steps, costs = cost_of_steps(trial.folder, trial.metrics, curve.over)
    for index, metric in enumerate(curve.metrics):
        points = [
            (factor * np.interp(line["step"], steps, costs), line[metric])
            for line in trial.metrics
            if metric in line and BEST_STEP not in line
        ]
        x, y = zip(*points, strict=True) if points else ((), ())
        last = index == len(curve.metrics) - 1
        panel.plot(
            x,
            y,
            color=color,
            label=metric,
            linestyle="-" if last else "--",
            alpha=1.0 if last else 0.45,
            linewidth=1.8 if last else 1.0,
            marker="o" if last else "",
            markersize=3,
        )


def draw_bars(table: Table, grid: Grid, name: str, *, inches: float = 0.0) -> Any:
    """One bar for each row: the mean of a column, its interval, and seeds as dots.

    Args:
      inches: the width of a PDF; 0: an SVG element.
    """
    drawn = [row for row in grid if grid[row][name] and grid[row][name].numbers]
    column = next(column for column in table.columns if column.name == name)
    with pyplot.rc_context(_style(inches)):
        height = (0.28 if inches else 0.42) * len(drawn) + 0.8
        figure, panel = pyplot.subplots(figsize=(inches or 6.4, height))
        for y, row in enumerate(reversed(drawn)):
            cell, color = grid[row][name], row_color(grid, row)
            mean, margin, _ = cell.estimate
            margin = math.nan if shows_both(cell) else margin
            panel.barh(y, mean, height=0.62, color=color, alpha=0.28)
            panel.errorbar(mean, y, xerr=margin, color=color, capsize=4, lw=1.6)
            panel.plot(cell.values, [y] * len(cell.values), "o", color=color, ms=3.5)
            panel.annotate(
                f"{mean:.{column.digits}f}",
                (0, y),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                weight="bold",
            )
            if row in table.all_baselines:
                panel.axvline(mean, color=color, lw=0.8, ls=":")
        panel.set_yticks(range(len(drawn)), reversed(drawn))
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
        panel.set_xlabel(column.header)
        left, right = panel.get_xlim()
        panel.set_xlim(max(min(left, 0), column.least), min(right, column.most))
        return _finished(figure, inches)


def svg_element(figure: Any) -> str:
    """A figure as an <svg> element of a page; its bytes are deterministic."""
    out = io.StringIO()
    metadata = {"Date": None}
    figure.savefig(
        out, format="svg", metadata=metadata, transparent=True, bbox_inches="tight"
    )
    pyplot.close(figure)
    return re.sub(r"^.*?(?=<svg)", "", out.getvalue(), flags=re.DOTALL)


def frontier(costs: Sequence[float], values: Sequence[float], sign: int) -> list[int]:
    """The Pareto frontier by cost: each network is better than all cheaper ones.

    Args:
      sign: 1 where higher values are better, else -1.
    """
    best, found = -math.inf, []
    by_cost = sorted(range(len(costs)), key=lambda n: (costs[n], -sign * values[n]))
    for number in by_cost:
        if sign * values[number] > best:
            best = sign * values[number]
            found.append(number)
    return found
