"""Plots a metric of runs against their cost: `palimpsest curves RUN RUN ...`.

A RUN is the folder of a run, or of a sweep: then all its trials that have begun. A run
in progress is drawn up to its latest step. The curves are printed as bars; --to=F
writes a figure (.svg, .png, .pdf) or all points (.csv).

--metric is a name in metrics.jsonl, or several separated by commas: for each run the
first that it has is drawn. --over is the quantity on the horizontal axis. FLOPs are in
GFLOP, TFLOP or PFLOP, depending on their size; a .csv always has PFLOP.

Values of different objectives, tasks or metrics cannot be compared, so each of these
has a panel with its own scale (--panels=one: one panel for all). A panel's title names
the keys in which its objectives differ: losses at two masking rates are of different
predictions.

Runs that differ only in the seed share a color. A trial has the name that the sweep
gives it, preceded by the sweep's folder if two sweeps use the same name.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from etils import epath

from launch import cli
from launch.reports.bars import curve_bars
from launch.reports.csv_files import lines_as_csv
from launch.reports.default_table import SEED, differing_keys
from launch.reports.run_costs import UNITS, axis_unit, cost_of_steps
from launch.reports.run_differences import Run, read_run
from launch.sweeps import sweep_plan
from launch.sweeps.trial import Trial
from research.contract.errors import UserError, unknown
from research.files.existence import exists
from research.files.output_files import write_output
from research.record.workdir import CHANGEABLE_KEYS

FIGURES = ("svg", "png", "pdf")
AXES = {"steps": "steps", **UNITS}
"""--over -> the label of the axis, and of a column of points."""


PANELS = ("objectives", "one")
"""Values of --panels: one per objective, task and metric, or one for all."""


class Curve(NamedTuple):
    """A metric of a run."""

    name: str  # of the run
    row: str  # the name that runs with other seeds share
    panel: str  # the title of the panel
    points: dict[float, float]  # cost -> value, in the order of steps


def run(args: argparse.Namespace) -> None:
    form = args.to.rpartition(".")[2]
    if args.to and form not in (*FIGURES, "csv"):
        raise unknown("ending of --to", form, (*FIGURES, "csv"))
    curves = read_curves(args.runs, args.metric, args.over, args.panels)
    shown, unit = in_axis_unit(curves, args.over)
    width = max(len(curve.name) for curve in shown)
    for title in dict.fromkeys(curve.panel for curve in shown):
        own = [curve for curve in shown if curve.panel == title]
        print(f"{title} over {unit}")
        for curve, bars in zip(own, curve_bars([c.points for c in own]), strict=True):
            print(f"{curve.name.ljust(width)}  {bars}, at {max(curve.points):.4g}")
    if not args.to:
        return
    if form == "csv":
        points = ((c.name, *point) for c in curves for point in c.points.items())
        content = lines_as_csv([("run", AXES[args.over], args.metric), *points])
    else:
        from launch.reports.figures import draw_overlaid  # imports matplotlib

        content = draw_overlaid(shown, unit, form)
    write_output(args.to, content, "--to")
    print(f"\n{args.to}")


def read_curves(
    paths: Sequence[str], metric: str, over: str, panels: str
) -> list[Curve]:
    """The curves of runs, and of all trials of sweeps; fine-tuning tasks come last.

    Args:
      metric: one, or several separated by commas: the first that a run has is used.
      over: a key of AXES.
      panels: one of PANELS.

    Raises:
      UserError: a run has no such metric, or its cost is unknown.
    """
    paths = with_trials(paths)
    trials = sweep_trials(paths)
    names = short_names(paths, trials)
    runs = list(map(read_run, paths))
    curves, of_tasks = [], []
    shown_runs: dict[str, list[Run]] = {}  # panel -> its runs
    for run, name, row in zip(runs, names, row_names(runs, names, trials), strict=True):
        shown, points = curve(run, metric, over)
        trial = trials.get(os.path.abspath(run.name))
        task = trial.group if trial and trial.group != "pretraining" else ""
        scored = task or run.config.get("objective.name", "")
        drawn = of_tasks if task else curves
        panel = f"{scored}: {shown}"
        shown_runs.setdefault(panel, []).append(run)
        drawn.append(Curve(name, row, panel, points))
    differing = {panel: differing_objectives(own) for panel, own in shown_runs.items()}
    curves = [c._replace(panel=c.panel + differing[c.panel]) for c in curves + of_tasks]
    if panels == "one" or len({curve.panel for curve in curves}) == 1:
        title = metric.replace(",", ", ") + differing_objectives(runs)
        curves = [curve._replace(panel=title) for curve in curves]
    return curves


def differing_objectives(runs: Sequence[Run]) -> str:
    """The objective keys in which runs differ, as text for a title; "" if none."""
    configs = [run.config for run in runs]
    keys = [
        key
        for key in sorted(differing_keys(configs))
        if key.startswith("objective.") and all(key in config for config in configs)
    ]
    return f" (of different {', '.join(keys)})" * bool(keys)


def in_axis_unit(curves: Sequence[Curve], over: str) -> tuple[list[Curve], str]:
    """The curves in a unit that suits the largest cost, and that unit."""
    unit, factor = axis_unit(AXES[over], max(max(curve.points) for curve in curves))
    scaled = [{factor * x: y for x, y in curve.points.items()} for curve in curves]
    return [c._replace(points=p) for c, p in zip(curves, scaled, strict=True)], unit


def curve(run: Run, metric: str, over: str) -> tuple[str, dict[float, float]]:
    """The metric that is shown, and cost -> its value, in the order of steps.

    Raises:
      UserError: as in `read_curves`.
    """
    found = {name: points for name in metric.split(",") if (points := run.curve(name))}
    if not found:
        known = sorted({k for own in run.values_by_step().values() for k in own})
        if not known:
            raise UserError(f"RUN={run.name} has no metrics yet")
        raise unknown(f"metric of RUN={run.name}", metric, known)
    name, points = next(iter(found.items()))
    if over == "steps":
        return name, {float(step): value for step, value in points.items()}
    steps, costs = cost_of_steps(epath.Path(run.name), run.lines, over)
    at = np.interp([*points], steps, costs)
    return name, dict(zip(map(float, at), points.values(), strict=True))


def row_names(
    runs: Sequence[Run], names: Sequence[str], trials: Mapping[str, Trial]
) -> list[str]:
    """One name per run, shared by runs whose configs differ only in the seed.

    For a trial it is its row in the sweep's table.
    """
    keys = []
    for run, name in zip(runs, names, strict=True):
        if trial := trials.get(os.path.abspath(run.name)):
            row = trial.row or SEED.sub("", trial.name).strip(" ,")
            keys.append(name.removesuffix(trial.name) + row)
        else:
            own = {k: v for k, v in run.config.items() if k not in CHANGEABLE_KEYS}
            keys.append(repr(sorted((own | {"seed": 0}).items())))
    members: dict[str, list[str]] = {}
    for key, name, run in zip(keys, names, runs, strict=True):
        is_trial = os.path.abspath(run.name) in trials
        members.setdefault(key, []).append(key if is_trial else name)
    return [", ".join(dict.fromkeys(members[key])) for key in keys]


def with_trials(paths: Sequence[str]) -> list[str]:
    """The paths, with each sweep's folder replaced by its trials that have metrics.

    Prints how many trials have none yet.

    Raises:
      UserError: no trial of a sweep has metrics.
    """
    found = []
    for path in paths:
        if not exists(epath.Path(path) / "sweep.json"):
            found.append(path)
            continue
        trials = sweep_plan.read_plan(path)
        begun = [str(trial.folder) for trial in trials if trial.metrics]
        if not begun:
            raise UserError(f"RUN={path}: no trial of this sweep has metrics yet")
        if missing := len(trials) - len(begun):
            print(
                f"{path}: {missing} of {len(trials)} trials have no metrics yet",
                file=sys.stderr,
            )
        found += begun
    return found


def sweep_trials(paths: Sequence[str]) -> dict[str, Trial]:
    """Folder -> trial, for all trials of the sweeps that the paths belong to."""
    return {
        str(trial.folder): trial
        for folder in {os.path.dirname(os.path.abspath(path)) for path in paths}
        if exists(epath.Path(folder) / "sweep.json")
        for trial in sweep_plan.read_plan(epath.Path(folder))
    }


def short_names(paths: Sequence[str], trials: Mapping[str, Trial]) -> list[str]:
    """The names of trials, or the paths relative to the folder that all share.

    A name that occurs in several sweeps is preceded by its sweep's folder.

    Raises:
      UserError: a run is named twice.
    """
    resolved = [os.path.abspath(path) for path in paths]
    for number, path in enumerate(resolved):
        if path in resolved[:number]:
            raise UserError(f"RUN={paths[number]} is named twice")
    shared = os.path.commonpath([os.path.dirname(path) for path in resolved])
    paths = [os.path.relpath(path, shared) for path in resolved]
    names = [
        trials[full].name if full in trials else path
        for full, path in zip(resolved, paths, strict=True)
    ]
    return [
        name if names.count(name) == 1 else os.path.join(os.path.dirname(path), name)
        for name, path in zip(names, paths, strict=True)
    ]


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path("runs", nargs="+", metavar="RUN", help="folder of a run")
    parser.add_argument("--metric", default="valid/loss", help="default: valid/loss")
    parser.add_argument("--over", choices=AXES, default="tokens")
    parser.add_argument("--panels", choices=PANELS, default="objectives")
    parser.add_path("--to", default="", help="file to write: .svg .png .pdf .csv")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
