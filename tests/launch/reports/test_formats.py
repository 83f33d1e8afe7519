"""Formats: Markdown, LaTeX, CSV and HTML show the same cells."""

import csv
import html.parser
import io
import math

import pytest

from launch.reports import formats, tables
from launch.sweeps import sweep_plan
from tests.testing import fake_sweep


@pytest.fixture
def grid(tmp_path):
    fake_sweep.finished(tmp_path)
    return tables.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))


class CellParser(html.parser.HTMLParser):
    """Reads the text of the table cells of an HTML page."""

    def __init__(self, page: str):
        super().__init__()
        self.rows, self.in_cell = [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.in_cell = tag in ("td", "th")
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        self.in_cell = self.in_cell and tag not in ("td", "th")

    def handle_data(self, data):
        if self.in_cell:
            self.rows[-1].append(data)


def _unescape(tex: str) -> str:
    tex = tex.replace(r"$\pm$", "±").replace("--", "–")
    return tex.replace(r"\%", "%").replace("$<$", "<")


def test_markdown_latex_and_html_show_the_same_text(grid):
    rows = formats.format_rows(fake_sweep.TABLE, grid)
    lines = formats.markdown(fake_sweep.TABLE, grid).split("\n\n")[0].splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[word.strip() for word in line.strip("|").split("|")] for line in lines]
    assert [cells[0], *cells[2:]] == rows
    assert CellParser(formats.html_table(fake_sweep.TABLE, grid)).rows == rows
    tex = formats.latex(fake_sweep.TABLE, grid)
    body = [line for line in tex.splitlines() if line.endswith(r"\\")]
    found = [_unescape(line[:-2]).strip().split(" & ") for line in body]
    assert found == rows


def test_latex_is_escaped(grid):
    tex = formats.latex(fake_sweep.TABLE, grid)
    assert r"A \& B\_c" in tex
    assert tex.count("{") - tex.count("\\{") == tex.count("}") - tex.count("\\}")


def test_csv_holds_full_precision(grid):
    text = formats.comma_separated(fake_sweep.TABLE, grid)
    lines = list(csv.DictReader(io.StringIO(text)))
    assert len(lines) == 3 + 2
    for line in lines:
        cell = grid[line["row"]][line["column"]]
        assert float(line["mean"]) == cell.estimate.mean
        margin = float(line["margin"] or "nan")
        assert margin == cell.estimate.margin or math.isnan(margin)
        assert int(line["count"]) == cell.estimate.count
        assert line["p"] == ("" if cell.p is None else repr(cell.p))
    (paper,) = [line for line in lines if line["paper"]]
    assert (paper["row"], float(paper["paper"])) == ("mlm", 84.0)


def test_notes_explain_the_signs(grid):
    text = " ".join(formats.notes(fake_sweep.TABLE, grid))
    for word in ("All equal.", "95 %", "3 seeds", "paired", "none", "Someone (2019)"):
        assert word in text


def test_markdown_shows_text_as_it_is(grid):
    assert formats.escape_markdown("a|b\n<b>c</b> &amp; `d` [e](f) *g* _h_") == (
        r"a\|b \<b>c\</b> \&amp; \`d\` \[e\](f) \*g\* \_h\_"
    )
    plain = "lm (GPT), p < 0.001, data.vocabulary_size, A & B"
    assert formats.escape_markdown(plain) == plain
    table = fake_sweep.TABLE._replace(note="<script>alert(1)</script>")
    row = {"a|b<img src=x>": grid["lm"]}
    text = formats.markdown(table, row)
    assert r"| a\|b\<img src=x> |" in text and "\n\\<script>alert" in text
