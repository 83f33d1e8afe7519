"""The figures of a report as SVG: curves over tokens, and bars with intervals."""

import io
import re
from collections.abc import Iterable
from typing import Any

import matplotlib
import numpy as np

from launch.reports.cells import Grid
from launch.reports.tables import Curve, Rows, Table

matplotlib.use("svg")
from matplotlib import pyplot

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


def draw_curves(rows: Rows, curve: Curve) -> str:
    """One panel for each row: metrics of its trials over the tokens seen.

    Losses of different objectives are not comparable: each panel has its own scale.
    """
    drawn = [row for row in rows if rows[row].get(curve.group)]
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            1, len(drawn), figsize=(2.15 * len(drawn) + 0.4, 2.4), squeeze=False
        )
        for row, panel in zip(drawn, axes[0], strict=True):
            for trial in rows[row][curve.group]:
                _draw_trial(panel, trial, curve.metrics, row_color(rows, row))
            panel.set_title(row, loc="left")
            panel.grid(axis="y")
            panel.set_xlabel("M tokens")
        handles = axes[0][0].get_legend_handles_labels()
        axes[0][-1].legend(*handles, frameon=False, fontsize=8)
        return _svg(figure)


def _draw_trial(panel: Any, trial: Any, metrics: tuple[str, ...], color: str) -> None:
    logged = [line for line in trial.metrics if "tokens_seen" in line]
    known = [{"step": 0, "tokens_seen": 0}, *logged]
    known.append(trial.result | {"step": trial.result["steps"]})
    steps, tokens = ([each[key] for each in known] for key in ("step", "tokens_seen"))
    for index, metric in enumerate(metrics):
        points = [
            (np.interp(line["step"], steps, tokens) / 1e6, line[metric])
            for line in trial.metrics
            if metric in line
        ]
        x, y = zip(*points, strict=True) if points else ((), ())
        last = index == len(metrics) - 1
        panel.plot(
            x,
            y,
            color=color,
            label=metric,
            alpha=1.0 if last else 0.45,
            linewidth=1.8 if last else 1.0,
            marker="o" if last else "",
            markersize=3,
        )


def draw_bars(table: Table, grid: Grid, name: str) -> str:
    """One bar for each row: the mean of a column, its interval, and seeds as dots."""
    drawn = [row for row in grid if grid[row][name] and grid[row][name].numbers]
    digits = next(column.digits for column in table.columns if column.name == name)
    with pyplot.rc_context(STYLE):
        figure, panel = pyplot.subplots(figsize=(6.4, 0.42 * len(drawn) + 0.8))
        for y, row in enumerate(reversed(drawn)):
            cell, color = grid[row][name], row_color(grid, row)
            mean, margin, _ = cell.estimate
            panel.barh(y, mean, height=0.62, color=color, alpha=0.28)
            panel.errorbar(mean, y, xerr=margin, color=color, capsize=4, lw=1.6)
            panel.plot(cell.values, [y] * len(cell.values), "o", color=color, ms=3.5)
            panel.annotate(
                f"{mean:.{digits}f}",
                (0, y),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                weight="bold",
            )
            if row == table.baseline:
                panel.axvline(mean, color=color, lw=0.8, ls=":")
        panel.set_yticks(range(len(drawn)), reversed(drawn))
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
        panel.set_xlabel(name)
        panel.set_xlim(left=0)
        return _svg(figure)


def _svg(figure: Any) -> str:
    """A figure as an <svg> element of a page; its bytes are deterministic."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    pyplot.close(figure)
    return re.sub(r"^.*?(?=<svg)", "", out.getvalue(), flags=re.DOTALL)
