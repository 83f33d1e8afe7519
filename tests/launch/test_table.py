"""Tables: every format says the same, and nothing is said of a run that is missing."""

import csv
import html.parser
import io
import math
import re
from pathlib import Path

import pytest

from launch import table
from launch.cli import main
from launch.reports import formats, tables
from launch.sweeps import trials
from research.errors import UserError
from research.evaluation.statistics import estimate, paired_test
from tests.testing import fake_sweep

FILE = str(Path(fake_sweep.__file__).resolve())


@pytest.fixture
def grid(tmp_path):
    fake_sweep.finished(tmp_path)
    return tables.cells(fake_sweep.TABLE, trials.read(tmp_path))


def test_a_cell_is_the_mean_of_its_trials_with_interval_and_test(grid):
    for row, scores in fake_sweep.SCORES.items():
        cell = grid[row]["score"]
        assert sorted(cell.values) == sorted(scores)
        assert cell.estimate == estimate(cell.values)
    expected = paired_test(fake_sweep.SCORES["mlm"], fake_sweep.SCORES["none"])
    assert grid["mlm"]["score"].p == expected
    assert grid["none"]["score"].p is None
    assert grid["none"]["size, M"] is None


def test_pairs_are_matched_by_seed_and_not_by_order(tmp_path):
    fake_sweep.finished(tmp_path)
    found = trials.read(tmp_path)
    turned = tables.cells(fake_sweep.TABLE, found[::-1])
    straight = tables.cells(fake_sweep.TABLE, found)
    assert turned["lm"]["score"].p == straight["lm"]["score"].p


def test_a_missing_run_is_refused_by_name(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    for trial in planned:
        path = trial.folder / "result.json"
        content = path.read_text()
        path.unlink()
        with pytest.raises(
            UserError, match=re.escape(f"1 run is missing: {trial.name}")
        ):
            tables.cells(fake_sweep.TABLE, trials.read(tmp_path))
        path.write_text(content)


def test_a_row_without_trials_is_refused(tmp_path):
    fake_sweep.finished(tmp_path)
    found = [t for t in trials.read(tmp_path) if "train.init_from" in t.parents]
    with pytest.raises(UserError, match="no trial of the sweep fills row lm"):
        tables.cells(fake_sweep.TABLE, found)


def test_two_trials_of_one_seed_are_refused(tmp_path):
    fake_sweep.finished(tmp_path)
    found = trials.read(tmp_path)
    with pytest.raises(UserError, match="share seed"):
        tables.cells(fake_sweep.TABLE, found + found)


@pytest.mark.parametrize("baseline, value", [("nothing", "parameters"), ("", "x.y")])
def test_a_name_that_is_not_there_is_told(tmp_path, baseline, value):
    fake_sweep.finished(tmp_path)
    column = tables.Column("x", "first", value)
    wrong = fake_sweep.TABLE._replace(baseline=baseline, columns=(column,))
    with pytest.raises(UserError, match="unknown"):
        tables.cells(wrong, trials.read(tmp_path))


class Cells(html.parser.HTMLParser):
    """The texts of a page's table cells."""

    def __init__(self, page: str):
        super().__init__()
        self.rows, self.inside = [], False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.inside = tag in ("td", "th")
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data):
        if self.inside:
            self.rows[-1].append(data)


def _plain(tex: str) -> str:
    tex = tex.replace(r"$\pm$", "±").replace("--", "–")
    return tex.replace(r"\%", "%").replace("$<$", "<")


def test_markdown_latex_and_html_show_the_same_strings(grid):
    shown = formats.strings(fake_sweep.TABLE, grid)
    lines = formats.markdown(fake_sweep.TABLE, grid).split("\n\n")[0].splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[word.strip() for word in line.strip("|").split("|")] for line in lines]
    assert [cells[0], *cells[2:]] == shown
    assert Cells(formats.html_table(fake_sweep.TABLE, grid)).rows == shown
    tex = formats.latex(fake_sweep.TABLE, grid)
    body = [line for line in tex.splitlines() if line.endswith(r"\\")]
    found = [_plain(line[:-2]).strip().split(" & ") for line in body]
    assert found == shown


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


def test_notes_say_what_the_signs_are(grid):
    said = " ".join(formats.notes(fake_sweep.TABLE, grid))
    for word in ("All equal.", "95 %", "3 seeds", "paired", "none", "Someone (2019)"):
        assert word in said


def _command(capsys, *flags):
    with pytest.raises(SystemExit) as caught:
        main(table.run, table.parser(), list(flags))
    return caught.value.code, capsys.readouterr()


def test_the_command_prints_or_writes(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    flags = [f"--table={FILE}", f"--workdir={tmp_path}", "--format=csv"]
    code, printed = _command(capsys, *flags)
    assert code == 0
    assert _command(capsys, *flags, f"--output={tmp_path}/t.csv")[0] == 0
    assert (tmp_path / "t.csv").read_text() == printed.out


@pytest.mark.parametrize(
    "flag, said",
    [
        ("--format=markdwon", "md"),
        ("--workdir=nowhere", "holds no sweep"),
        ("--table=experiments/mlm.py", "TABLE"),
        ("--config.seed=1", "unknown flag"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, capsys, flag, said):
    fake_sweep.finished(tmp_path)
    flags = [f"--table={FILE}", f"--workdir={tmp_path}", flag]
    code, printed = _command(capsys, *flags)
    assert code == 2 and said in printed.err and printed.err.count("\n") == 1
