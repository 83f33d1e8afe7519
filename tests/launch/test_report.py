"""`launch.report` writes a self-contained page, and the same bytes each time."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from launch import report
from launch.cli import main
from launch.reports import cells, formats, paper
from launch.reports.tables import Column
from launch.sweeps import sweep_plan
from tests.testing import fake_sweep

FILE = str(Path(fake_sweep.__file__).resolve())


def _write(workdir: Path, capsys, *more: str) -> str:
    flags = [f"--table={FILE}", f"--workdir={workdir}", *more]
    with pytest.raises(SystemExit) as caught:
        main(report.run, report.parser(), flags)
    printed = capsys.readouterr()
    assert caught.value.code == 0, printed.err
    return printed.out


def test_the_html_page_needs_no_other_file(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    _write(tmp_path, capsys)
    page = (tmp_path / "report.html").read_text()
    links = re.findall(r"""(?:src|(?<!xlink:)href)=["']([^"']*)""", page)
    assert not [link for link in links if not link.startswith("#")]
    assert "url(http" not in page and "<script" not in page
    figures = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(figures) == 3
    for figure in figures:
        ElementTree.fromstring(figure)


def test_the_images_of_the_markdown_page_exist(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    _write(tmp_path, capsys)
    text = (tmp_path / "report.md").read_text()
    images = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
    assert len(images) == 3
    assert all((tmp_path / image).stat().st_size > 1000 for image in images)


def test_the_table_is_printed_and_in_both_pages(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    printed = _write(tmp_path, capsys)
    grid = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
    table = formats.markdown(fake_sweep.TABLE, grid)
    assert table in printed
    assert table.strip() in (tmp_path / "report.md").read_text()
    page = (tmp_path / "report.html").read_text()
    assert formats.html_table(fake_sweep.TABLE, grid) in page


def test_a_second_report_has_the_same_bytes(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    _write(tmp_path, capsys)
    files = {path: path.read_bytes() for path in tmp_path.glob("*.*")}
    _write(tmp_path, capsys)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.*")} == files


def test_a_paper_has_a_short_table_and_figures_of_its_width(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    more = ("--width=3.25", "--panels=one", "--label=tab:ways", "--columns=score")
    _write(tmp_path, capsys, *more, "--spread=sd")
    tex = (tmp_path / "table.tex").read_text()
    assert r"\label{tab:ways}" in tex and "size, M" not in tex.split(r"\begin")[1]
    rows = [line.strip() for line in tex.splitlines() if line.endswith(r"\\")]
    assert rows[0] == r"way & score \\"
    found = {row.split(" & ")[0]: row for row in rows[1:]}
    assert found["none"] == r"none & 61.0 $\pm$ 1.0 \\"
    assert re.fullmatch(
        r"mlm & \\textbf\{81\.3 \$\\pm\$ 1\.5\$\^\{\*+\}\$\} \\\\", found["mlm"]
    )
    assert "textbf" not in found["lm"]
    (caption,) = (line for line in tex.splitlines() if "caption" in line)
    assert "standard deviation over 3 seeds; bold: best; * 0.05, ** 0.01" in caption
    comments = [line for line in tex.splitlines() if line.startswith("%")]
    assert any("paired by pretraining seed" in line for line in comments)
    for name in ("curve-1.pdf", "bars-1.pdf"):
        content = (tmp_path / name).read_bytes()
        box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", content)
        assert content.startswith(b"%PDF") and float(box[1]) == pytest.approx(234)
    _write(tmp_path, capsys, "--verdicts=none", "--caption=One & all.", "--spread=none")
    tex = (tmp_path / "table.tex").read_text()
    assert r"\caption{One \& all.}" in tex and "label" not in tex
    assert r"none & -- & 61.0 \\" in tex and r"\textbf{81.3}" in tex


def test_fine_tunings_are_no_further_seeds_in_a_paper(tmp_path):
    fake_sweep.finished(tmp_path)
    grid = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
    cell = grid["mlm"]["score"]
    tunings = [
        number._replace(scores=number.scores + change)
        for number in cell.numbers
        for change in (-9.0, 0.0, 9.0)
    ]
    many = {"mlm": {"score": cell._replace(numbers=tuple(tunings))}}
    for rows in (many, {"mlm": grid["mlm"]}):
        for spread, half in (("ci", 3.8), ("sd", 1.5)):
            style = paper.Style(("score",), spread)
            tex = paper.latex(fake_sweep.TABLE, rows, style)
            assert f"81.3 $\\pm$ {half}$" in tex
            assert "over 3 seeds" in tex.split(r"\caption")[1]


def test_two_seeds_are_two_numbers_in_a_paper(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    table = fake_sweep.TABLE
    some = [trial for trial in planned if trial.config["seed"] < 2]
    grid = cells.fill_table(table, some)
    tex = paper.latex(table, grid, paper.Style(("score",)))
    assert "none & 60.0, 62.0 " in tex and r"\pm" not in tex
    tex = paper.latex(table, grid, paper.Style(("score",), spread="sd"))
    assert r"none & 61.0 $\pm$ 1.4 " in tex and "deviation over 2 seeds" in tex


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--columns=scroe", "unknown --columns 'scroe'; did you mean score"),
        ("--spread=se", "unknown --spread 'se'"),
        ("--width=300", "--width must be 0 to 20 inches, not 300"),
    ],
)
def test_a_wrong_flag_of_a_paper_gives_one_line(tmp_path, capsys, flag, words):
    fake_sweep.finished(tmp_path)
    flags = [f"--table={FILE}", f"--workdir={tmp_path}", flag]
    with pytest.raises(SystemExit) as caught:
        main(report.run, report.parser(), flags)
    assert caught.value.code == 2 and words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("score", ("score",)),
        ("score,size, M", ("score", "size, M")),
        ("size, M,score", ("size, M", "score")),
        ("size, M, score,", ("size, M", "score")),
        ("size,score", ("size", "score")),
        ("scores,M", ("scores", "M")),
    ],
)
def test_columns_are_named_with_the_commas_inside_of_their_names(text, expected):
    columns = [Column(name, "", "") for name in ("size", "size, M", "score")]
    table = fake_sweep.TABLE._replace(columns=tuple(columns))
    assert paper.named_columns(text, table) == expected
