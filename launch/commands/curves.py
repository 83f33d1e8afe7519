"""Draws a metric of runs over their cost: `palimpsest curves RUN RUN ...`.

A RUN is its folder, or that of a sweep: all its trials that have begun. A trial has the
name that the sweep gives it, behind the sweep's folder if those of several sweeps have
one name. --metric is one of metrics.jsonl, or several with commas, of which each run is
drawn by the first that it has; --over is what the horizontal axis counts. The curves
are printed as bars, all on one scale, and --to writes them: a figure (.svg, .png,
.pdf), or every point (.csv). Runs that go on are drawn as far as they are.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import numpy as np
from etils import epath

from launch import cli
from launch.reports.bars import curve_bars
from launch.reports.csv_files import lines_as_csv
from launch.reports.run_costs import UNITS, cost_of_steps
from launch.reports.run_differences import Run, read_run
from launch.sweeps import sweep_plan
from research.contract.errors import UserError, unknown
from research.files.existence import exists
from research.files.output_files import write_output

FIGURES = ("svg", "png", "pdf")
AXES = {"steps": "steps", **UNITS}
"""--over -> the label of the axis."""


def run(args: argparse.Namespace) -> None:
    form = args.to.rpartition(".")[2]
    if args.to and form not in (*FIGURES, "csv"):
        raise unknown("ending of --to", form, (*FIGURES, "csv"))
    paths = with_trials(args.runs)
    names = short_names(paths)
    curves = {
        name: curve(read_run(path), args.metric, args.over)
        for name, path in zip(names, paths, strict=True)
    }
    width = max(map(len, names))
    title = args.metric.replace(",", ", ")
    print(f"{title} over {AXES[args.over]}")
    for name, bars in zip(names, curve_bars([*curves.values()]), strict=True):
        print(f"{name.ljust(width)}  {bars}, at {max(curves[name]):.4g}")
    if not args.to:
        return
    if form == "csv":
        points = ((n, *point) for n, each in curves.items() for point in each.items())
        content = lines_as_csv([("run", AXES[args.over], args.metric), *points])
    else:
        from launch.reports.figures import draw_overlaid  # matplotlib, for it alone

        content = draw_overlaid(curves, title, AXES[args.over], form)
    write_output(args.to, content, "--to")
    print(f"\n{args.to}")


def curve(run: Run, metric: str, over: str) -> dict[float, float]:
    """Cost -> value of a metric, in the order of steps.

    Args:
      metric: one or several, separated by commas: the first that the run has.

    Raises:
      UserError: the run has no such metric, or its cost is not known.
    """
    points = next(filter(None, map(run.curve, metric.split(","))), None)
    if not points:
        known = sorted({k for own in run.values_by_step().values() for k in own})
        if not known:
            raise UserError(f"RUN={run.name} has no metrics yet")
        raise unknown(f"metric of RUN={run.name}", metric, known)
    if over == "steps":
        return {float(step): value for step, value in points.items()}
    steps, costs = cost_of_steps(epath.Path(run.name), run.lines, over)
    at = np.interp([*points], steps, costs)
    return dict(zip(map(float, at), points.values(), strict=True))


def with_trials(paths: Sequence[str]) -> list[str]:
    """The paths, with the trials that have metrics in place of a sweep's folder.

    Prints how many have none yet.

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


def short_names(paths: Sequence[str]) -> list[str]:
    """The names of trials, or the paths without the folders that all of them share.

    A name that trials of several sweeps have stands behind its sweep's folder.

    Raises:
      UserError: a run is named twice.
    """
    resolved = [os.path.abspath(path) for path in paths]
    for number, path in enumerate(resolved):
        if path in resolved[:number]:
            raise UserError(f"RUN={paths[number]} is named twice")
    shared = os.path.commonpath([os.path.dirname(path) for path in resolved])
    trials = {
        str(trial.folder): trial.name
        for folder in {os.path.dirname(path) for path in resolved}
        if exists(epath.Path(folder) / "sweep.json")
        for trial in sweep_plan.read_plan(epath.Path(folder))
    }
    paths = [os.path.relpath(path, shared) for path in resolved]
    names = [trials.get(*pair) for pair in zip(resolved, paths, strict=True)]
    return [
        name if names.count(name) == 1 else os.path.join(os.path.dirname(path), name)
        for name, path in zip(names, paths, strict=True)
    ]


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path("runs", nargs="+", metavar="RUN", help="folder of a run")
    parser.add_argument("--metric", default="valid/loss", help="default: valid/loss")
    parser.add_argument("--over", choices=AXES, default="tokens")
    parser.add_path("--to", default="", help="file to write: .svg .png .pdf .csv")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
