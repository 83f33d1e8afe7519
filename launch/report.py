"""A sweep's table with figures and provenance: report.md, and report.html in one file.

python -m launch.report --table=experiments/tables/objectives.py --workdir=runs/mine
"""

import argparse
import html
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from launch import cli
from launch.reports import figures, formats, tables
from launch.reports.tables import Grid, Rows, Table
from launch.sweeps import trials
from launch.sweeps.trials import Trial


class Group(NamedTuple):
    """What the trials of a group have in common, and what not."""

    name: str
    count: int  # of trials
    equal: dict[str, Any]  # key -> value
    varied: dict[str, dict[str, list[Any]]]  # key -> row -> values


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
        f"curve-{number}.svg": (curve.caption, figures.curves(rows, curve))
        for number, curve in enumerate(table.curves, 1)
    } | {
        f"bars-{number}.svg": (_caption(table, name), figures.bars(table, grid, name))
        for number, name in enumerate(table.bars, 1)
    }
    return Report(table, grid, drawn, groups(rows), provenance(rows))


def _caption(table: Table, name: str) -> str:
    dotted = f"; dotted: {table.baseline}" if table.baseline else ""
    return f"{name}: mean, {formats.LEVEL} confidence interval, seeds as dots{dotted}"


def groups(rows: Rows) -> list[Group]:
    """Over all rows, each group's equal and varied config keys; parents left out."""
    found = []
    for name in dict.fromkeys(name for row in rows.values() for name in row):
        by_row = {
            row: list(group[name]) for row, group in rows.items() if name in group
        }
        members = [trial for group in by_row.values() for trial in group]
        parents = {key for trial in members for key in trial.parents}
        equal, varied = {}, {}
        for key in dict.fromkeys(key for t in members for key in t.config):
            values = _distinct(trial.config.get(key) for trial in members)
            if len(values) == 1:
                equal[key] = values[0]
            elif key not in parents:
                varied[key] = {
                    row: _distinct(t.config[key] for t in group if key in t.config)
                    for row, group in by_row.items()
                }
        found.append(Group(name, len(members), equal, varied))
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


def _tables(report: Report) -> Iterable[tuple[str, list[list[str]]]]:
    """What stands at a report's end: titles, and lines of words under a header."""
    for group in report.groups:
        title = f"{group.name}, {group.count} runs"
        if group.varied:
            rows = list(next(iter(group.varied.values())))
            lines = [
                [
                    key,
                    *(
                        " · ".join(map(_text, by_row[row])) or formats.DASH
                        for row in rows
                    ),
                ]
                for key, by_row in group.varied.items()
            ]
            yield f"{title}: what differs", [["", *rows], *lines]
        equal = [[key, _text(value)] for key, value in group.equal.items()]
        yield f"{title}: what is equal", [["", "all"], *equal]
    facts = [[key, value] for key, value in report.provenance.items()]
    yield "Provenance", [["", "runs"], *facts]


def markdown(report: Report) -> str:
    parts = [f"# {report.table.title}", formats.markdown(report.table, report.grid)]
    for file, (caption, _) in report.figures.items():
        parts.append(f"![{caption}]({file})\n\n{caption}")
    for title, (header, *lines) in _tables(report):
        body = [header, ["---"] * len(header), *lines]
        text = "\n".join("| " + " | ".join(words) + " |" for words in body)
        parts.append(
            f"<details><summary>{html.escape(title)}</summary>\n\n{text}\n\n</details>"
        )
    return "\n\n".join(parts) + "\n"


def page(report: Report) -> str:
    """The report as one file: no script, no link, no image beside it."""
    drawn = "\n".join(
        f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, svg in report.figures.values()
    )
    details = "\n".join(
        f"<details><summary>{html.escape(title)}</summary>\n<div class='wide'>"
        f"{formats.html_lines(lines)}</div></details>"
        for title, lines in _tables(report)
    )
    return PAGE.format(
        title=html.escape(report.table.title),
        table=formats.html_table(report.table, report.grid),
        figures=drawn,
        details=details,
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
details table {{ font-size: .82rem; width: auto; border: 0; margin: .6rem 0; }}
details td {{ text-align: left; white-space: normal; overflow-wrap: anywhere; }}
details tbody th {{ font: .78rem ui-monospace, monospace; }}
details thead th {{ text-align: left; }}
</style>
<main>
<h1>{title}</h1>
<div class="wide">
{table}</div>
{figures}
{details}
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
    print(formats.markdown(report.table, report.grid))
    print(f"{folder / 'report.md'}\n{folder / 'report.html'}")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_argument("--table", required=True, help="a file of experiments/tables")
    parser.add_argument("--workdir", required=True, help="of the sweep")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
