"""A table's figures as SVG: curves over tokens, and means with their intervals."""

import io
import re
from collections.abc import Iterable
from typing import Any

import matplotlib

from launch.reports.tables import Curve, Grid, Rows, Table

matplotlib.use("svg")
from matplotlib import pyplot

INK, FAINT = "#1f2430", "#d9dce3"
COLORS = ("#2f6db5", "#e0803a", "#3c9a5f", "#b3446c", "#7a5fb0", "#8a8f99", "#c2a02e")
STYLE = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "figure.constrained_layout.use": True,
    "font.family": "sans-serif",
    "font.size": 9,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "palimpsest",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


def color(rows: Iterable[str], row: str) -> str:
    """A row keeps its color in every figure."""
    return COLORS[list(rows).index(row) % len(COLORS)]


def curves(rows: Rows, curve: Curve) -> str:
    """A panel a row: the curve's metrics of its trials over the tokens seen.

    Losses of different objectives are not comparable: each panel has its own scale.
    """
    drawn = [row for row in rows if curve.group in rows[row]]
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(
            1, len(drawn), figsize=(2.15 * len(drawn) + 0.4, 2.4), squeeze=False
        )
        for row, panel in zip(drawn, axes[0], strict=True):
            for trial in rows[row][curve.group]:
                _lines(panel, trial, curve.metrics, color(rows, row))
            panel.set_title(row, loc="left")
            panel.grid(axis="y")
            panel.set_xlabel("M tokens")
        handles = axes[0][0].get_legend_handles_labels()
        axes[0][-1].legend(*handles, frameon=False, fontsize=8)
        return _svg(figure)


def _lines(panel: Any, trial: Any, metrics: tuple[str, ...], color: str) -> None:
    each = trial.result["tokens_seen"] / trial.result["steps"]  # tokens a step
    for index, metric in enumerate(metrics):
        points = [
            (line["step"] * each / 1e6, line[metric])
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


def bars(table: Table, grid: Grid, name: str) -> str:
    """Each row's mean of a column with its interval and, as dots, its seeds."""
    drawn = [row for row in grid if grid[row][name]]
    digits = next(column.digits for column in table.columns if column.name == name)
    with pyplot.rc_context(STYLE):
        figure, panel = pyplot.subplots(figsize=(6.4, 0.42 * len(drawn) + 0.8))
        for place, row in enumerate(reversed(drawn)):
            cell, paint = grid[row][name], color(grid, row)
            mean, margin, _ = cell.estimate
            panel.barh(place, mean, height=0.62, color=paint, alpha=0.28)
            panel.errorbar(mean, place, xerr=margin, color=paint, capsize=4, lw=1.6)
            panel.plot(
                cell.values, [place] * len(cell.values), "o", color=paint, ms=3.5
            )
            panel.annotate(
                f"{mean:.{digits}f}",
                (0, place),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                weight="bold",
            )
            if row == table.baseline:
                panel.axvline(mean, color=paint, lw=0.8, ls=":")
        panel.set_yticks(range(len(drawn)), reversed(drawn))
        panel.tick_params(axis="y", length=0)
        panel.spines["left"].set_visible(False)
        panel.set_xlabel(name)
        panel.set_xlim(left=0)
        return _svg(figure)


def _svg(figure: Any) -> str:
    """A figure as an <svg> that can stand in a page; the same bytes each time."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
    pyplot.close(figure)
    return re.sub(r"^.*?(?=<svg)", "", out.getvalue(), flags=re.DOTALL)
