"""A report of a sweep: its table, figures, configs and provenance."""

import json
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from launch.reports import cells, tables
from launch.reports.cells import Grid
from launch.reports.notes import CONFIDENCE
from launch.reports.tables import Curve, Rows, Table
from launch.sweeps.trial import Trial


class GroupConfigs(NamedTuple):
    """The config keys with equal values in all trials of a group, and the others."""

    name: str
    num_trials: int
    equal: dict[str, Any]  # key -> value
    varied: dict[str, dict[str, list[Any]]]  # key -> row -> values


class Report(NamedTuple):
    """The content of a report of a sweep."""

    table: Table
    grid: Grid
    figures: dict[str, tuple[str, str]]  # file name -> caption, SVG
    no_curves: str  # why no curve is drawn, and what to do; "": curves are drawn
    pdfs: dict[str, bytes]  # curves and bars, if a width is given
    groups: list[GroupConfigs]
    provenance: dict[str, str]


def make_report(
    table: Table, trials: list[Trial], *, inches: float = 0.0, one_panel: bool = False
) -> Report:
    """Fills the table and draws its figures.

    Args:
      inches: the width of PDFs of the curves and bars; 0: none are drawn.
      one_panel: the curves of all rows are in one panel.

    Raises:
      UserError: a result does not belong to its run.
    """
    grid = cells.fill_table(table, trials)
    rows = _finished(tables.table_rows(table, trials))
    # matplotlib: after errors are reported
    from launch.reports import figures, report_figures

    curves = {
        f"curve-{number}": (curve.caption, partial(figures.draw_curves, rows, curve))
        for number, curve in enumerate(table.curves, 1)
        if any(map(partial(_has_curve, curve), tables.trials_of(rows, curve.group)))
    }
    bars = {
        f"bars-{number}": (
            _bars_caption(table, name),
            partial(figures.draw_bars, table, grid, name),
        )
        for number, name in enumerate(table.bars, 1)
        if any(row[name] and row[name].numbers for row in grid.values())
    }
    if one_panel:
        curves = {
            name: (caption, partial(draw, one_panel=True))
            for name, (caption, draw) in curves.items()
        }
    drawn = {
        f"{name}.svg": (caption, draw())
        for name, (caption, draw) in (curves | bars).items()
    }
    pdfs = {
        f"{name}.pdf": draw(inches=inches)
        for name, (_, draw) in (curves | bars).items()
        if inches
    }
    for figure in report_figures.all_drawn(table, grid, rows):
        drawn[figure.file] = figure.caption, figure.svg
    no_curves = "" if curves else _reason_without_curves(table, rows)
    return Report(
        table, grid, drawn, no_curves, pdfs, compare_configs(rows), provenance(rows)
    )


def _has_curve(curve: Curve, trial: Trial) -> bool:
    """Whether a metric of the curve has two points, enough for a line."""
    names = [name for line in trial.metrics for name in curve.metrics if name in line]
    return any(names.count(name) > 1 for name in curve.metrics)


def _reason_without_curves(table: Table, rows: Rows) -> str:
    if not table.curves:
        return (
            "No loss curves: the table's file has no curves=(Curve(...),). "
            "palimpsest curves RUN RUN draws curves of any runs."
        )
    if not any(tables.trials_of(rows, curve.group) for curve in table.curves):
        return (
            "No loss curves: no run has ended. palimpsest curves draws unfinished runs."
        )
    return (
        "No loss curves: no loss was logged at two steps. Train with train.log_every, "
        "and train.eval_every for losses of evaluations, at half of train.steps or "
        "less."
    )


def _finished(rows: Rows) -> Rows:
    """The rows with the trials that have a result."""
    return {
        row: {name: [t for t in group if t.done] for name, group in groups.items()}
        for row, groups in rows.items()
    }


def _bars_caption(table: Table, name: str) -> str:
    names = ", ".join(table.all_baselines)
    dotted = f"; dotted: {names}" if names else ""
    return f"{name}: mean, {CONFIDENCE} confidence interval, seeds as dots{dotted}"


def compare_configs(rows: Rows) -> list[GroupConfigs]:
    """The equal and the varying config keys of each group, over all rows.

    Keys whose value is a parent's folder are left out.
    """
    groups = []
    for name in dict.fromkeys(name for row in rows.values() for name in row):
        by_row = {
            row: list(group[name]) for row, group in rows.items() if name in group
        }
        members = [trial for group in by_row.values() for trial in group]
        parent_keys = {key for trial in members for key in trial.parents}
        equal, varied = {}, {}
        for key in dict.fromkeys(key for t in members for key in t.config):
            values = _distinct(trial.config.get(key) for trial in members)
            if len(values) == 1:
                equal[key] = values[0]
            elif key not in parent_keys:
                varied[key] = {
                    row: _distinct(t.config[key] for t in group if key in t.config)
                    for row, group in by_row.items()
                }
        groups.append(GroupConfigs(name, len(members), equal, varied))
    return groups


def provenance(rows: Rows) -> dict[str, str]:
    """Key -> provenance of all results; distinct values are joined by "; "."""
    members = [t for row in rows.values() for group in row.values() for t in group]
    facts: dict[str, list[Any]] = {}
    for trial in members:
        for key, value in trial.result["provenance"].items():
            if key != "command":
                facts.setdefault(key, []).append(value)
    return {
        key: "; ".join(map(value_text, _distinct(values)))
        for key, values in facts.items()
    }


def value_text(value: Any) -> str:
    """A config or provenance value as text without JSON's quotes and braces."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {value_text(item)}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value)


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({json.dumps(value): value for value in values}.values())
