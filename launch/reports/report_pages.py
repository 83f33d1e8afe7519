"""A report as a Markdown page and as an HTML page."""

import html
from collections.abc import Iterable

from launch.reports import formats
from launch.reports.cell_text import DASH
from launch.reports.report import Report, value_text


def markdown_page(report: Report) -> str:
    """The report as Markdown; its figures are files beside the page."""
    escape = formats.escape_markdown
    title = f"# {escape(report.table.title)}"
    parts = [title, formats.markdown(report.table, report.grid)]
    for file, (caption, _) in report.figures.items():
        caption = escape(caption)
        parts.append(f"![{caption}]({file})\n\n{caption}")
    for title, (header, *rows) in _detail_tables(report):
        body = [header, ["---"] * len(header), *rows]
        rows = (" | ".join(map(escape, cells)) for cells in body)
        text = "\n".join(f"| {row} |" for row in rows)
        parts.append(
            f"<details><summary>{html.escape(title)}</summary>\n\n{text}\n\n</details>"
        )
    return "\n\n".join(parts) + "\n"


def html_page(report: Report) -> str:
    """The report as one HTML file without scripts, links or external images."""
    figures = "\n".join(
        f"<figure>{svg}<figcaption>{html.escape(caption)}</figcaption></figure>"
        for caption, svg in report.figures.values()
    )
    details = "\n".join(
        f"<details><summary>{html.escape(title)}</summary>\n<div class='wide'>"
        f"{formats.html_rows(rows)}</div></details>"
        for title, rows in _detail_tables(report)
    )
    return HTML_TEMPLATE.format(
        title=html.escape(report.table.title),
        table=formats.html_table(report.table, report.grid),
        figures=figures,
        details=details,
    )


def _detail_tables(report: Report) -> Iterable[tuple[str, list[list[str]]]]:
    """Title and rows (the header first) of the tables at the end of a report."""
    for group in report.groups:
        title = f"{group.name}, {group.num_trials} runs"
        if group.varied:
            names = list(next(iter(group.varied.values())))
            rows = [
                [key, *map(_joined, by_row.values())]
                for key, by_row in group.varied.items()
            ]
            yield f"{title}: what differs", [["", *names], *rows]
        equal = [[key, value_text(value)] for key, value in group.equal.items()]
        yield f"{title}: what is equal", [["", "all"], *equal]
    facts = [[key, value] for key, value in report.provenance.items()]
    yield "Provenance", [["", "runs"], *facts]


def _joined(values: list) -> str:
    return " · ".join(map(value_text, values)) or DASH


HTML_TEMPLATE = """<!doctype html>
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
