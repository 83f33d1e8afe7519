"""A sweep's table with figures and provenance: report.md, and report.html in one file.

python -m launch.report --table=experiments/tables/objectives.py --workdir=runs/mine
"""

import argparse
import html
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import launch
from launch import figures, render, tables, trials
from launch.tables import Grid, Rows, Table
from launch.trials import Trial


class Group(NamedTuple):
    """What the trials of a group have in common, and what not."""

    name: str
    trials: list[Trial]
    equal: dict[str, Any]  # key -> value
    varied: dict[str, list[Any]]  # key -> values


class Report(NamedTuple):
    table: Table
    grid: Grid
    figures: dict[str, tuple[str, str]]  # file name -> caption, SVG
    groups: list[Group]
    provenance: dict[str, str]


def gather(table: Table, found: list[Trial]) -> Report:
    """Fills the table and draws its figures.

    Raises:
      UserError: runs are missing.
    """
    grid, rows = tables.cells(table, found), table.rows(found)
    drawn = {
        f"curve-{number}.svg": (curve.title, figures.curves(rows, curve))
        for number, curve in enumerate(table.curves, 1)
    } | {
        f"bars-{number}.svg": (name, figures.bars(table, grid, name))
        for number, name in enumerate(table.bars, 1)
    }
    return Report(table, grid, drawn, groups(rows), provenance(rows))


def groups(rows: Rows) -> list[Group]:
    """Over all rows, each group's equal and varied config keys."""
    names = dict.fromkeys(name for row in rows.values() for name in row)
    found = []
    for name in names:
        members = [trial for row in rows.values() for trial in row.get(name, ())]
        keys = dict.fromkeys(key for trial in members for key in trial.config)
        equal, varied = {}, {}
        for key in keys:
            values = _distinct(trial.config.get(key) for trial in members)
            if len(values) == 1:
                equal[key] = values[0]
            elif key not in {k for trial in members for k in trial.parents}:
                varied[key] = values
        found.append(Group(name, members, equal, varied))
    return found


def provenance(rows: Rows) -> dict[str, str]:
    """What made the numbers; more than one value is shown as such."""
    members = [t for row in rows.values() for group in row.values() for t in group]
    facts: dict[str, list[Any]] = {}
    for trial in members:
        for key, value in trial.result["provenance"].items():
            if key != "command":
                facts.setdefault(key, []).append(value)
    return {key: "; ".join(map(_text, _distinct(v))) for key, v in facts.items()}


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({json.dumps(value): value for value in values}.values())


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    return value if isinstance(value, str) else json.dumps(value)


def _sections(report: Report) -> Iterable[tuple[str, dict[str, str]]]:
    """The plain lists at a report's end: title, and what it says of each key."""
    for group in report.groups:
        count = f"{group.name}: {len(group.trials)} runs"
        varied = {k: " · ".join(map(_text, v)) for k, v in group.varied.items()}
        yield f"{count}, in which these differ", varied
        yield f"{count}, all with", {k: _text(v) for k, v in group.equal.items()}
    yield "Provenance", report.provenance


def markdown(report: Report) -> str:
    parts = [f"# {report.table.title}", render.markdown(report.table, report.grid)]
    for file, (caption, _) in report.figures.items():
        parts.append(f"![{caption}]({file})")
    for title, facts in _sections(report):
        lines = [f"| `{key}` | {value} |" for key, value in facts.items()]
        parts += [f"## {title}", "\n".join(["| | |", "|---|---|", *lines])]
    return "\n\n".join(parts) + "\n"


def page(report: Report) -> str:
    """The report as one file: no script, no link, no image beside it."""
    title = html.escape(report.table.title)
    drawn = "\n".join(
        f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, svg in report.figures.values()
    )
    lists = []
    for heading, facts in _sections(report):
        lines = "\n".join(
            f"<dt>{html.escape(key)}</dt><dd>{html.escape(value)}</dd>"
            for key, value in facts.items()
        )
        lists.append(
            f"<details><summary>{html.escape(heading)}</summary>\n<dl>\n{lines}\n</dl>"
            "</details>"
        )
    return PAGE.format(
        title=title,
        table=render.html_table(report.table, report.grid),
        figures=drawn,
        lists="\n".join(lists),
    )


PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light; --ink: #1f2430; --soft: #667085; --line: #d9dce3; }}
body {{ font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: #f6f7f9;
  margin: 0; }}
main {{ max-width: 76rem; margin: 2.5rem auto; padding: 2.5rem 3rem; background: #fff;
  border: 1px solid var(--line); border-radius: 10px; }}
h1 {{ font: 600 1.9rem/1.25 Georgia, serif; margin: 0 0 1.5rem; }}
p {{ color: var(--soft); margin: .35rem 0; max-width: 60rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; margin-bottom: 1rem;
  font-variant-numeric: tabular-nums; border-top: 2px solid var(--ink);
  border-bottom: 2px solid var(--ink); }}
th, td {{ padding: .45rem .7rem; text-align: right; white-space: nowrap; }}
thead th {{ font-weight: 600; font-size: .86rem; vertical-align: bottom;
  white-space: normal; border-bottom: 1px solid var(--ink); }}
tbody tr + tr {{ border-top: 1px solid var(--line); }}
th:first-child {{ text-align: left; }}
figure {{ margin: 2.2rem 0 0; }}
figure svg {{ max-width: 100%; height: auto; }}
figcaption, summary {{ color: var(--soft); font-size: .9rem; }}
details {{ border-top: 1px solid var(--line); padding: .6rem 0; }}
figure + details {{ margin-top: 2rem; }}
summary {{ cursor: pointer; }}
dl {{ display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1.2rem;
  font-size: .85rem; margin: .6rem 0; }}
dt {{ font-family: ui-monospace, monospace; }}
dd {{ margin: 0; color: var(--soft); overflow-wrap: anywhere; }}
</style>
<main>
<h1>{title}</h1>
<div class="wide">
{table}</div>
{figures}
{lists}
</main>
</html>
"""


def run(args: argparse.Namespace) -> None:
    """Writes the two files of a command line, and prints the table."""
    report = gather(tables.load(args.table), trials.read(args.workdir))
    folder = Path(args.workdir)
    for file, (_, svg) in report.figures.items():
        (folder / file).write_text(svg)
    (folder / "report.md").write_text(markdown(report))
    (folder / "report.html").write_text(page(report))
    print(render.markdown(report.table, report.grid))
    print(f"{folder / 'report.md'}\n{folder / 'report.html'}")


def parser() -> launch.Parser:
    parser = launch.Parser(__doc__, overrides=False)
    parser.add_argument("--table", required=True, help="a file of experiments/tables")
    parser.add_argument("--workdir", required=True, help="of the sweep")
    return parser


if __name__ == "__main__":
    launch.main(run, parser())
