"""A filled table as Markdown, LaTeX, CSV or HTML, or as sizes of differences."""

import html
import re
import sys
from collections.abc import Callable, Sequence

from launch.reports.cell_text import format_rows, is_compared
from launch.reports.cells import Grid
from launch.reports.csv_files import comma_separated, numbers
from launch.reports.effects import effect_rows
from launch.reports.notes import notes
from launch.reports.tables import Table

MARKDOWN_SPECIAL = re.compile(r"[\\`*\[\]|~]|<(?=[\w/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w)")
"""Characters that Markdown, or HTML in it, does not read as plain text."""


def escape_markdown(text: str) -> str:
    """The text as one line that a page shows unchanged, even in a table."""
    return MARKDOWN_SPECIAL.sub(r"\\\g<0>", _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _paragraph(text: str) -> str:
    """The text as a paragraph, never as a heading or a list."""
    text = escape_markdown(text)
    return f"\\{text}" if text.startswith(("-", "+", "#")) else text


def markdown(table: Table, grid: Grid) -> str:
    """The table in Markdown, with its notes."""
    below = "".join(f"\n{_paragraph(note)}\n" for note in notes(table, grid))
    return _markdown_rows(format_rows(table, grid)) + below


def printed(table: Table, grid: Grid) -> str:
    """`markdown`; on a terminal without backslashes, which a page would not show."""
    if not sys.stdout.isatty():
        return markdown(table, grid)
    below = "".join(f"\n{_one_line(note)}\n" for note in notes(table, grid))
    return _markdown_rows(format_rows(table, grid), _one_line) + below


def effects(table: Table, grid: Grid) -> str:
    """The sizes of the table's differences, in Markdown."""
    return _markdown_rows(effect_rows(table, grid))


def _markdown_rows(
    rows: Sequence[Sequence[str]], escape: Callable[[str], str] = escape_markdown
) -> str:
    """A Markdown table whose first row is the header."""
    lines = [[escape(word) for word in line] for line in rows]
    columns = zip(*lines, strict=True)
    widths = [max(2, *map(len, column)) for column in columns]  # :- or -: at least

    def line(words: list[str]) -> str:
        first, *rest = zip(words, widths, strict=True)
        padded = [first[0].ljust(first[1]), *(word.rjust(n) for word, n in rest)]
        return "| " + " | ".join(padded) + " |"

    rule = [":" + "-" * (widths[0] - 1), *("-" * (n - 1) + ":" for n in widths[1:])]
    body = [line(lines[0]), line(rule), *map(line, lines[1:])]
    return "\n".join(body) + "\n"


def latex(table: Table, grid: Grid) -> str:
    """A LaTeX table for the package booktabs."""
    rows = [[escape_tex(word) for word in line] for line in format_rows(table, grid)]
    return tex_table(rows, f"{table.title}. {' '.join(notes(table, grid))}")


def tex_table(rows: Sequence[Sequence[str]], caption: str, label: str = "") -> str:
    r"""A LaTeX table for booktabs, whose first row is the header.

    Args:
      rows: cells in LaTeX.
      caption: as text.
      label: for \ref; "": none.
    """
    header, *others = rows
    ends = [" & ".join(row) + r" \\" for row in others]
    return "\n".join(
        [
            r"\begin{table}",
            rf"  \caption{{{escape_tex(caption)}}}",
            *([rf"  \label{{{label}}}"] if label else []),
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
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "§": r"\S{}",
    "–": "--",
    "<": "$<$",
    ">": "$>$",
    "“": "``",
    "”": "''",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
} | {letter: "\\" + letter for letter in "&%$#_{}"}


def escape_tex(text: str) -> str:
    """The text in LaTeX, on one line: an empty line would end a paragraph."""
    return "".join(TEX_ESCAPES.get(letter, letter) for letter in " ".join(text.split()))


def html_table(table: Table, grid: Grid) -> str:
    """An HTML <table> and its notes, for a page.

    Columns with verdicts come first, so that a narrow page shows them.
    """
    below = "\n".join(f"<p>{html.escape(note)}</p>" for note in notes(table, grid))
    by_test = sorted(table.columns, key=lambda each: not is_compared(table, each, grid))
    rows = format_rows(table._replace(columns=tuple(by_test)), grid)
    return f"<div class='wide'>{html_rows(rows)}</div>\n{below}\n"


def html_rows(rows: list[list[str]]) -> str:
    """An HTML <table> whose first row and first column are headers."""

    def line(tag: str, words: list[str]) -> str:
        first, *rest = map(html.escape, words)
        of_long = {word: " class='long'" for word in rest if len(word) > LONG}
        others = "".join(
            f"<{tag}{of_long.get(word, '')}>{word}</{tag}>" for word in rest
        )
        return f'<tr><th scope="row">{first}</th>{others}</tr>'

    header, *others = rows
    body = "\n".join(line("td", row) for row in others)
    head = line("th", header)
    return f"<table>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n</table>"


LONG = 20
"""A cell of HTML with more letters may have several lines."""

FORMATS: dict[str, Callable[[Table, Grid], str]] = {
    "md": markdown,
    "tex": latex,
    "csv": comma_separated,
    "numbers": numbers,
    "html": html_table,
    "effects": effects,
}

HTML_TEMPLATE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light; --ink: #1f2430; --soft: #667085; --line: #d9dce3; }}
body {{ font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: #f6f7f9;
  margin: 0; }}
main {{ max-width: 76rem; margin: 1.5rem auto; padding: 2rem 2.2rem; background: #fff;
  border: 1px solid var(--line); border-radius: 10px; }}
h1 {{ font: 600 1.9rem/1.25 Georgia, serif; margin: 0 0 1.5rem; }}
p {{ color: var(--soft); margin: .35rem 0; max-width: 60rem; }}
.wide {{ overflow-x: auto; }}
table {{ border-collapse: collapse; width: 100%; margin-bottom: 1rem;
  font-variant-numeric: tabular-nums; border-top: 2px solid var(--ink);
  border-bottom: 2px solid var(--ink); }}
th, td {{ padding: .45rem .6rem; text-align: right; white-space: nowrap; }}
td.long {{ white-space: normal; min-width: 11.5rem; }}
.wide th:first-child {{ position: sticky; left: 0; background: #fff;
  border-right: 1px solid var(--line); white-space: normal; min-width: 11rem; }}
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
{table}
{figures}
{details}
</main>
</html>
"""
