"""A filled table as Markdown, LaTeX, CSV or HTML."""

import csv
import html
import io
import math
import re
from collections.abc import Callable

from launch.reports.tables import Cell, Grid, Table

CSV_HEADER = ("row", "column", "mean", "margin", "count", "p", "paper", "source")
DASH = "–"
CONFIDENCE = "95 %"
MARKDOWN_SPECIAL = re.compile(
    r"[\\`*\[\]|~]|<(?=[\w/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w)|^[-+#]"
)
"""What Markdown, or HTML in it, reads as more than text."""


def format_number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def format_cell(cell: Cell | None, digits: int) -> str:
    """A cell as plain text: mean, margin and the paper's number, if there are any."""
    if cell is None:
        return DASH
    text = format_number(cell.estimate.mean, digits)
    if not math.isnan(cell.estimate.margin):
        text += f" ± {format_number(cell.estimate.margin, digits)}"
    if cell.paper:
        text += f" (paper: {format_number(cell.paper.number, digits)})"
    return text


def format_p(p: float | None) -> str:
    if p is None or math.isnan(p):
        return DASH
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def format_rows(table: Table, grid: Grid) -> list[list[str]]:
    """The header and the rows as text; a tested column is followed by its p."""
    lines = [[table.row_header]]
    for column in table.columns:
        lines[0] += [column.name] + ["p"] * column.tested
    for row, cells in grid.items():
        line = [row]
        for column in table.columns:
            cell = cells[column.name]
            line.append(format_cell(cell, column.digits))
            if column.tested:
                line.append(format_p(cell and cell.p))
        lines.append(line)
    return lines


def notes(table: Table, grid: Grid) -> list[str]:
    """The notes below a table: what is compared, what ± and p mean, and sources."""
    cells = [cell for row in grid.values() for cell in row.values() if cell]
    counts = {cell.estimate.count for cell in cells} - {1}
    texts = [table.note] if table.note else []
    if counts:
        seeds = " or ".join(map(str, sorted(counts)))
        texts.append(
            f"±: {CONFIDENCE} confidence interval (Student's t) over {seeds} seeds."
        )
    if any(cell.p is not None for cell in cells):
        texts.append(f"p: paired t-test against “{table.baseline}”, seed by seed.")
    sources = dict.fromkeys(cell.paper.source for cell in cells if cell.paper)
    if sources:
        texts.append(f"Papers: {'; '.join(sources)}.")
    return texts


def escape_markdown(text: str) -> str:
    """The text as one line that a page shows as it is, also in a table."""
    return MARKDOWN_SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def markdown(table: Table, grid: Grid) -> str:
    lines = [
        [escape_markdown(word) for word in line] for line in format_rows(table, grid)
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def line(words: list[str]) -> str:
        first, *rest = zip(words, widths, strict=True)
        padded = [first[0].ljust(first[1]), *(word.rjust(n) for word, n in rest)]
        return "| " + " | ".join(padded) + " |"

    rule = [":" + "-" * (widths[0] - 1), *("-" * (n - 1) + ":" for n in widths[1:])]
    body = [line(lines[0]), line(rule), *map(line, lines[1:])]
    below = "".join(f"\n{escape_markdown(note)}\n" for note in notes(table, grid))
    return "\n".join(body) + "\n" + below


def latex(table: Table, grid: Grid) -> str:
    """A LaTeX table for the package booktabs."""
    header, *rows = [[_tex(word) for word in line] for line in format_rows(table, grid)]
    ends = [" & ".join(row) + r" \\" for row in rows]
    return "\n".join(
        [
            r"\begin{table}",
            rf"  \caption{{{_tex(table.title)}. {_tex(' '.join(notes(table, grid)))}}}",
            r"  \centering",
            rf"  \begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            r"    \toprule",
            "    " + " & ".join(header) + r" \\",
            r"    \midrule",
            *("    " + end for end in ends),
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
            "",
        ]
    )


TEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    "“": "``",
    "”": "''",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
} | {letter: "\\" + letter for letter in "&%$#_{}"}


def _tex(text: str) -> str:
    return "".join(TEX_ESCAPES.get(letter, letter) for letter in text)


def comma_separated(table: Table, grid: Grid) -> str:
    """One line for each cell, at full precision, for other programs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for row, cells in grid.items():
        for column, cell in cells.items():
            if cell is None:
                continue
            paper = cell.paper or ("", "")
            margin = "" if math.isnan(cell.estimate.margin) else cell.estimate.margin
            p = "" if cell.p is None or math.isnan(cell.p) else cell.p
            mean, _, count = cell.estimate
            writer.writerow([row, column, mean, margin, count, p, *paper])
    return out.getvalue()


def html_table(table: Table, grid: Grid) -> str:
    """An HTML <table> and its notes, to be put in a page."""
    below = "\n".join(f"<p>{html.escape(note)}</p>" for note in notes(table, grid))
    return f"{html_rows(format_rows(table, grid))}\n{below}\n"


def html_rows(rows: list[list[str]]) -> str:
    """An HTML <table> whose first row and first column are headers."""

    def line(tag: str, words: list[str]) -> str:
        first, *rest = map(html.escape, words)
        others = "".join(f"<{tag}>{word}</{tag}>" for word in rest)
        return f'<tr><th scope="row">{first}</th>{others}</tr>'

    header, *others = rows
    body = "\n".join(line("td", row) for row in others)
    head = line("th", header)
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


FORMATS: dict[str, Callable[[Table, Grid], str]] = {
    "md": markdown,
    "tex": latex,
    "csv": comma_separated,
    "html": html_table,
}
