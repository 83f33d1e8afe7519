"""A report as a Markdown page and as an HTML page."""

import html
from collections.abc import Iterable

from launch.reports import formats
from launch.reports.cell_text import DASH
from launch.reports.report import Report, value_text


def markdown_page(report: Report) -> str:
    """The report as a Markdown page; its figures are files beside the page."""
    escape = formats.escape_markdown
    title = f"# {escape(report.table.title)}"
    parts = [title, formats.markdown(report.table, report.grid)]
    if report.no_curves:
        parts.append(escape(report.no_curves))
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
    if report.no_curves:
        figures = f"<p>{html.escape(report.no_curves)}</p>\n{figures}"
    details = "\n".join(
        f"<details><summary>{html.escape(title)}</summary>\n<div class='wide'>"
        f"{formats.html_rows(rows)}</div></details>"
        for title, rows in _detail_tables(report)
    )
    return formats.HTML_TEMPLATE.format(
        title=html.escape(report.table.title),
        table=formats.html_table(report.table, report.grid),
        figures=figures,
        details=details,
    )


def _detail_tables(report: Report) -> Iterable[tuple[str, list[list[str]]]]:
    """Title and rows (the header first) of the tables at the end of a report."""
    for group in report.groups:
        title, count = f"{group.name}, {group.num_trials} runs", len(group.equal)
        if group.varied:
            names = list(next(iter(group.varied.values())))
            rows = [
                [key, *map(_joined, by_row.values())]
                for key, by_row in group.varied.items()
            ]
            yield f"{title}: {len(rows)} config keys that differ", [["", *names], *rows]
        equal = [[key, value_text(value)] for key, value in group.equal.items()]
        yield f"{title}: {count} config keys with one value", [["", "all"], *equal]
    facts = [[key, value] for key, value in report.provenance.items()]
    yield "Provenance", [["", "runs"], *facts]


def _joined(values: list) -> str:
    return " · ".join(map(value_text, values)) or DASH
