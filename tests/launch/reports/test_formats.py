"""Formats: Markdown, LaTeX, CSV and HTML show the same cells."""

import csv
import dataclasses
import html.parser
import io
import math
import re

import numpy as np
import pytest

from launch.reports import cell_text, cells, csv_files, formats, notes
from launch.sweeps import sweep_plan
from research.evaluation.comparison import compare
from research.evaluation.statistics import estimate
from research.record.workdir import write_result
from tests.testing import fake_sweep


@pytest.fixture
def grid(tmp_path):
    fake_sweep.finished(tmp_path)
    return cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))


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
    rows = cell_text.format_rows(fake_sweep.TABLE, grid)
    lines = formats.markdown(fake_sweep.TABLE, grid).split("\n\n")[0].splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[word.strip() for word in line.strip("|").split("|")] for line in lines]
    assert [cells[0], *cells[2:]] == rows
    of_page = CellParser(formats.html_table(fake_sweep.TABLE, grid)).rows
    assert of_page[0] == ["way", "score", "difference", "verdict", "size, M"]
    columns = zip(*of_page, strict=True), zip(*rows, strict=True)
    assert sorted(columns[0]) == sorted(columns[1])
    tex = formats.latex(fake_sweep.TABLE, grid)
    body = [line for line in tex.splitlines() if line.endswith(r"\\")]
    found = [_unescape(line[:-2]).strip().split(" & ") for line in body]
    assert found == rows


def test_a_column_of_one_letter_is_a_column_of_a_markdown_table():
    """GitHub's delimiters have a hyphen at least."""
    header, rule, *_ = formats._markdown_rows([["a", "b"], ["1", "2"]]).split("\n")
    assert header == "| a  |  b |"
    assert re.fullmatch(r"\| :-+ \| -+: \|", rule)


def test_a_caption_is_one_paragraph():
    tex = formats.tex_table([["a", "b"]], "A title.\n\n  Its rest")
    assert r"\caption{A title. Its rest}" in tex


def test_latex_is_escaped(grid):
    tex = formats.latex(fake_sweep.TABLE, grid)
    assert r"A \& B\_c" in tex
    assert tex.count("{") - tex.count("\\{") == tex.count("}") - tex.count("\\}")


def test_csv_holds_full_precision(grid):
    text = formats.comma_separated(fake_sweep.TABLE, grid)
    lines = list(csv.DictReader(io.StringIO(text)))
    assert len(lines) == 2 + 3
    for line in lines:
        cell = grid[line["row"]][line["column"]]
        assert float(line["mean"]) == cell.estimate.mean
        margin = float(line["margin"] or "nan")
        assert margin == cell.estimate.margin or math.isnan(margin)
        assert int(line["count"]) == cell.estimate.count
        if cell.comparison is None:
            assert line["difference"] == line["p"] == line["verdict"] == ""
        else:
            difference, p, adjusted_p, _ = cell.comparison
            assert float(line["difference"]) == difference.mean
            assert float(line["difference_margin"]) == difference.margin
            assert (float(line["p"]), float(line["adjusted_p"])) == (p, adjusted_p)
            assert line["verdict"] == cell.comparison.verdict(cell.direction)
    papers = {line["row"]: float(line["paper"]) for line in lines if line["paper"]}
    assert papers == {"mlm": 84.0, "none": 60.0}


def test_every_number_is_in_the_file_of_numbers(grid):
    text = formats.numbers(fake_sweep.TABLE, grid)
    lines = list(csv.DictReader(io.StringIO(text)))
    found = [(line["row"], line["column"], float(line["value"])) for line in lines]
    cells = [(row, name, grid[row][name]) for row in grid for name in grid[row]]
    assert found == [
        (*at, value) for *at, cell in cells if cell for value in cell.values
    ]
    seeds = [(line["pretraining_seed"], line["seed"]) for line in lines]
    assert seeds == [(seed, seed) for seed in "012"] * 5
    assert {line["commit"] for line in lines} == {"abc"}
    assert len({line["trial"] for line in lines}) == 2 * 3 + 3 * 3


def _cell(scores, baseline=(60.0, 62.0, 61.0), direction=0.0, **keys):
    found = compare({"": (scores, baseline[: len(scores)])})[""]
    return cells.Cell((), estimate(scores), found, direction=direction, **keys)


@pytest.mark.parametrize(
    ("scores", "direction", "difference", "verdict"),
    [
        ((71.0, 73.0, 72.5), 0.0, "+11.2 ± 0.7", "higher, p < 0.001"),
        ((51.0, 53.0, 52.5), 0.0, "-8.8 ± 0.7", "lower, p < 0.001"),
        ((71.0, 73.0, 72.5), 2.0, "+11.2 ± 0.7 (paper: +2.0)", "holds, p < 0.001"),
        ((51.0, 53.0, 52.5), 2.0, "-8.8 ± 0.7 (paper: +2.0)", "reversed, p < 0.001"),
        (
            (66.0, 62.5, 63.0),
            2.0,
            "+2.8 ± 7.1 (paper: +2.0)",
            "not decided, p 0.226; needs 10 seeds",
        ),
        ((60.0, 62.0, 61.0), 0.0, "+0.0", "not decided, p 1.000; needs > 1000 seeds"),
        ((61.0, 63.0, 62.0), 0.0, "+1.0", "not decided, p not defined"),
        ((66.0,), 2.0, "+6.0 (paper: +2.0)", "too few seeds"),
        ((96.0, 98.1), 2.0, "+36.0 (paper: +2.0)", "too few seeds"),
    ],
)
def test_a_verdict_says_what_the_numbers_decide(scores, direction, difference, verdict):
    cell = _cell(scores, direction=direction)
    assert cell_text.format_difference(cell, 1) == difference
    assert cell_text.format_verdict(cell).startswith(verdict)
    needs = "not decided" in verdict and "not defined" not in verdict
    assert ("needs" in cell_text.format_verdict(cell)) == needs


def _number(grid, seed, score):
    number = grid["mlm"]["score"].numbers[seed]
    return number._replace(scores=np.float64(score))


def test_two_seeds_show_their_numbers_and_no_interval(grid):
    """One of 9 standard deviations; the interval that three have is as before."""
    numbers = _number(grid, 0, 30), _number(grid, 1, 35.4)
    two = _cell((30.0, 35.4))._replace(numbers=numbers)
    assert cell_text.format_cell(two, 1) == "30.0, 35.4"
    assert cell_text.format_difference(two, 1) == "-28.3"
    of_items = [n._replace(scores=n.scores + np.arange(-4, 5)) for n in numbers]
    for tunings in (of_items, [of_items[0], *of_items, of_items[1]]):
        cell = two._replace(numbers=tuple(tunings))
        assert cell_text.format_cell(cell, 1) == "30.0, 35.4"
    text = " ".join(notes.notes(fake_sweep.TABLE, grid | {"mlm": {"score": two}}))
    assert "A cell with two numbers has two seeds" in text
    assert "Two numbers" not in " ".join(notes.notes(fake_sweep.TABLE, grid))


def test_one_pretraining_seed_is_marked(grid):
    number = grid["mlm"]["score"].numbers[0]
    cell = _cell((66.0,))._replace(
        numbers=(number,) * 3, estimate=estimate((65.0, 66.0, 67.0))
    )
    marked = grid | {"mlm": grid["mlm"] | {"score": cell}}
    assert cell_text.format_cell(cell, 1) == "66.0 ± 2.5 †"
    text = " ".join(notes.notes(fake_sweep.TABLE, marked))
    assert "†: one pretraining seed" in text and "carries no verdict" in text
    assert "†" not in " ".join(notes.notes(fake_sweep.TABLE, grid))
    assert r"\dag{}" in formats.latex(fake_sweep.TABLE, marked)


def test_seeds_of_one_checkpoint_from_outside_the_sweep_are_marked(grid):
    """Its fine-tunings are no further pretrainings; a checkpoint a seed are several."""
    numbers = grid["none"]["score"].numbers
    for starts, is_marked in (("aaa", True), ("aba", True), ("abc", False)):
        trials = [
            dataclasses.replace(
                number.trial, config=number.trial.config | {"train.init_from": start}
            )
            for number, start in zip(numbers, starts, strict=True)
        ]
        tuned = [
            dataclasses.replace(trial, parents={"train.init_from": trial})
            for trial in trials
        ]
        for each in (trials, tuned):
            own = [n._replace(trial=t) for n, t in zip(numbers, each, strict=True)]
            cell = grid["none"]["score"]._replace(numbers=tuple(own))
            marked = grid | {"none": grid["none"] | {"score": cell}}
            assert ("§" in cell_text.format_cell(cell, 1)) == is_marked
            text = " ".join(notes.notes(fake_sweep.TABLE, marked))
            assert ("§: seeds of one checkpoint" in text) == is_marked
            assert (r"\S{}" in formats.latex(fake_sweep.TABLE, marked)) == is_marked
    assert "§" not in " ".join(notes.notes(fake_sweep.TABLE, grid))


def test_runs_of_different_code_are_marked(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    result = planned[0].result
    result["provenance"]["commit"] = "other"
    write_result(planned[0].folder, result)
    grid = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
    text = " ".join(notes.notes(fake_sweep.TABLE, grid))
    assert "different code: commits other, abc" in text


def test_runs_of_different_data_in_one_cell_are_marked(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    trial = fake_sweep.rows(planned)["mlm"]["second"][0]
    result = trial.result
    result["provenance"]["data"] = "other"
    write_result(trial.folder, result)
    grid = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
    assert cell_text.format_cell(grid["mlm"]["score"], 1).split(" (")[0].endswith("‡")
    assert "‡" not in cell_text.format_cell(grid["lm"]["score"], 1)
    assert "‡: runs of this cell read different data" in " ".join(
        notes.notes(fake_sweep.TABLE, grid)
    )
    assert r"\ddag{}" in formats.latex(fake_sweep.TABLE, grid)


def test_runs_of_one_cell_that_are_tested_on_different_data_are_marked(tmp_path):
    """An older result does not say on which; that is no difference."""
    planned, marks = fake_sweep.finished(tmp_path), []
    for trial, file in zip(
        fake_sweep.rows(planned)["mlm"]["second"], "AAB", strict=True
    ):
        result = trial.result
        result["provenance"]["test_data"] = file
        write_result(trial.folder, result)
        grid = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
        marks.append("‡" in cell_text.format_cell(grid["mlm"]["score"], 1))
    assert marks == [False, False, True]
    lines = csv.DictReader(io.StringIO(formats.numbers(fake_sweep.TABLE, grid)))
    found = [line["test_data"] for line in lines if line["row"] == "mlm"]
    assert sorted(found) == ["", "", "", "A", "A", "B"]


def test_notes_explain_the_signs(grid):
    text = " ".join(notes.notes(fake_sweep.TABLE, grid))
    words = "All equal.", "95 %", "3 seeds", "paired", "none", "2 together (Holm)"
    for word in (*words, "Someone (2019)", "Signal-to-noise ratio of score"):
        assert word in text
    assert "different code" not in text


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


def test_a_terminal_shows_no_backslashes_and_a_file_does(grid, monkeypatch):
    row = {"corpus=*/[a].txt": grid["lm"]}
    assert formats.printed(fake_sweep.TABLE, row) == formats.markdown(
        fake_sweep.TABLE, row
    )
    assert r"corpus=\*/\[a\].txt" in formats.printed(fake_sweep.TABLE, row)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    text = formats.printed(fake_sweep.TABLE, row)
    assert "corpus=*/[a].txt" in text and "\\" not in text
    lines = text.split("\n\n")[0].splitlines()
    assert len({len(line) for line in lines}) == 1


@pytest.mark.parametrize("text", ["=1+1", "+x", "-x", "@x", "\tx"])
def test_no_cell_of_csv_is_a_formula(text):
    (line,) = csv.reader(io.StringIO(csv_files.lines_as_csv([[text, -1.5]])))
    assert line == [f"'{text}", "-1.5"]
