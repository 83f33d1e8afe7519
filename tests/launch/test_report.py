"""`launch.report` writes a self-contained page, and the same bytes each time."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from launch import report
from launch.cli import main
from launch.reports import cells, formats
from launch.sweeps import sweep_plan
from tests.testing import fake_sweep

FILE = str(Path(fake_sweep.__file__).resolve())


def _write(workdir: Path, capsys) -> str:
    flags = [f"--table={FILE}", f"--workdir={workdir}"]
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
