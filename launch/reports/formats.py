"""A filled table as Markdown, LaTeX, CSV or HTML."""

import html
import math
import re
from collections.abc import Callable, Iterator

import numpy as np

from launch.reports.csv_files import comma_separated, numbers
from launch.reports.tables import Cell, Column, Grid, Table
from research.evaluation.comparison import LEVEL, NOT_DECIDED, ONE_SEED
from research.evaluation.power import MAX_SEEDS
from research.evaluation.statistics import Estimate, signal_to_noise

DASH = "–"
CONFIDENCE = "95 %"
MARKDOWN_SPECIAL = re.compile(r"[\\`*\[\]|~]|<(?=[\w/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w)")
"""What Markdown, or HTML in it, reads as more than text."""

ONE_SEED_MARK = "†"


def format_number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def format_cell(cell: Cell | None, digits: int) -> str:
    """A cell as plain text: mean, margin and the paper's number, if there are any."""
    if cell is None:
        return DASH
    text = _mean_and_margin(cell.estimate, f",.{digits}f", digits)
    if cell.one_seed and cell.estimate.count > 1:
        text += f" {ONE_SEED_MARK}"
    if cell.paper:
        number = format_number(cell.paper.number, digits)
        text += f" (paper: {' '.join([number, cell.paper.mark]).strip()})"
    return text


def _mean_and_margin(estimate: Estimate, mean_format: str, digits: int) -> str:
    text = format(estimate.mean, mean_format)
    if math.isnan(estimate.margin) or estimate.margin == 0:  # one seed, or all alike
        return text
    return f"{text} ± {format_number(estimate.margin, digits)}"


def format_difference(cell: Cell | None, digits: int) -> str:
    """The difference to the baseline, and the paper's, if there is one."""
    if cell is None or cell.comparison is None:
        return DASH
    text = _mean_and_margin(cell.comparison.difference, f"+,.{digits}f", digits)
    return text + (f" (paper: {cell.direction:+,.{digits}f})" if cell.direction else "")


def format_verdict(cell: Cell | None) -> str:
    """The verdict with its corrected p, and the seeds that an open one needs."""
    if cell is None or cell.comparison is None:
        return DASH
    comparison, verdict = cell.comparison, cell.comparison.verdict(cell.direction)
    if verdict == ONE_SEED:
        return verdict
    text = f"{verdict}, p {format_p(comparison.adjusted_p)}"
    if verdict != NOT_DECIDED:
        return text
    return f"{text}; needs {comparison.seeds_needed or f'> {MAX_SEEDS}'} seeds"


def format_p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def format_rows(table: Table, grid: Grid) -> list[list[str]]:
    """The header and the rows as text; a tested column is followed by its test."""
    lines = [[table.row_header]]
    for column in table.columns:
        lines[0] += [column.name] + ["difference", "verdict"] * _compared(table, column)
    for row, cells in grid.items():
        line = [row]
        for column in table.columns:
            cell = cells[column.name]
            line.append(format_cell(cell, column.digits))
            if _compared(table, column):
                line.append(format_difference(cell, column.digits))
                line.append(format_verdict(cell))
        lines.append(line)
    return lines


def _compared(table: Table, column: Column) -> bool:
    return column.tested and bool(table.baseline)


def notes(table: Table, grid: Grid) -> list[str]:
    """The notes below a table: what is compared, what its signs mean, and sources."""
    cells = [cell for row in grid.values() for cell in row.values() if cell]
    counts = {cell.estimate.count for cell in cells if cell.estimate.margin > 0}
    texts = [table.note] if table.note else []
    if counts:
        seeds = " or ".join(map(str, sorted(counts)))
        texts.append(f"±: {CONFIDENCE} confidence interval (t) over {seeds} seeds.")
    if any(cell.one_seed and cell.estimate.count > 1 for cell in cells):
        texts.append(
            f"{ONE_SEED_MARK}: one pretraining seed; ± is over its fine-tuning seeds."
        )
    texts += _comparison_notes(table, grid)
    sources = dict.fromkeys(cell.paper.source for cell in cells if cell.paper)
    if sources:
        texts.append(f"Papers: {'; '.join(sources)}.")
    commits = dict.fromkeys(str(n.origin["commit"]) for c in cells for n in c.numbers)
    if len(commits) > 1:
        texts.append(f"The runs are of different code: commits {', '.join(commits)}.")
    return texts


def _comparison_notes(table: Table, grid: Grid) -> Iterator[str]:
    found = [c.comparison for row in grid.values() for c in row.values() if c]
    found = [comparison for comparison in found if comparison]
    if not found:
        return
    yield (
        f"difference: from “{table.baseline}”, paired by pretraining seed. verdict: on "
        "further seeds (and items, where their scores are known), at "
        f"{100 * LEVEL:.0f} % for all {len(found)} together (Holm)."
    )
    verdicts = [comparison.verdict() for comparison in found]
    if NOT_DECIDED in verdicts:
        yield (
            "needs N seeds: so many find a difference of this size in 80 % of cases, "
            "if it is the true one."
        )
    if ONE_SEED in verdicts:
        yield "one seed: a ranking from one pretraining seed carries no verdict."
    for column in filter(lambda column: _compared(table, column), table.columns):
        drawn = [cells[column.name] for cells in grid.values() if cells[column.name]]
        repeated = [cell.values for cell in drawn if len(cell.values) > 1]
        if repeated and any(np.ptp(values) for values in repeated):
            ratio = signal_to_noise([cell.estimate.mean for cell in drawn], repeated)
            yield f"Signal-to-noise ratio of {column.name} over seeds: {ratio:.1f}."


def escape_markdown(text: str) -> str:
    """The text as one line that a page shows as it is, also in a table."""
    return MARKDOWN_SPECIAL.sub(r"\\\g<0>", " ".join(text.split()))


def _paragraph(text: str) -> str:
    """The text as a paragraph, and no heading or list."""
    text = escape_markdown(text)
    return f"\n\\{text}\n" if text.startswith(("-", "+", "#")) else f"\n{text}\n"


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
    below = "".join(map(_paragraph, notes(table, grid)))
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
    "†": r"\dag{}",
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
    "numbers": numbers,
    "html": html_table,
}
