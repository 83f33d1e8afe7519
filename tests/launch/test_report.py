"""Reports: one file that holds everything, the same each time it is written."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from launch import report
from launch.cli import main
from launch.reports import formats, tables
from launch.sweeps import trials
from tests.testing import fake_sweep

FILE = str(Path(fake_sweep.__file__).resolve())


def _write(workdir: Path, capsys) -> str:
    flags = [f"--table={FILE}", f"--workdir={workdir}"]
    with pytest.raises(SystemExit) as caught:
        main(report.run, report.parser(), flags)
    said = capsys.readouterr()
    assert caught.value.code == 0, said.err
    return said.out


def test_the_page_needs_no_other_file(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    _write(tmp_path, capsys)
    page = (tmp_path / "report.html").read_text()
    links = re.findall(r"""(?:src|(?<!xlink:)href)=["']([^"']*)""", page)
    assert not [link for link in links if not link.startswith("#")]
    assert "url(http" not in page and "<script" not in page
    drawings = re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)
    assert len(drawings) == 2
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_the_markdown_names_files_that_are_there(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    _write(tmp_path, capsys)
    text = (tmp_path / "report.md").read_text()
    images = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
    assert len(images) == 2
    assert all((tmp_path / image).stat().st_size > 1000 for image in images)


def test_the_table_is_printed_and_in_both_files(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    printed = _write(tmp_path, capsys)
    grid = tables.cells(fake_sweep.TABLE, trials.read(tmp_path))
    table = formats.markdown(fake_sweep.TABLE, grid)
    assert table in printed
    assert table.strip() in (tmp_path / "report.md").read_text()
    page = (tmp_path / "report.html").read_text()
    assert formats.html_table(fake_sweep.TABLE, grid) in page


def test_written_twice_it_is_the_same(tmp_path, capsys):
    fake_sweep.finished(tmp_path)
    _write(tmp_path, capsys)
    files = {path: path.read_bytes() for path in tmp_path.glob("*.*")}
    _write(tmp_path, capsys)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.*")} == files


def test_what_is_equal_and_what_differs_is_read_off_the_configs(tmp_path):
    fake_sweep.finished(tmp_path)
    rows = fake_sweep.rows(trials.read(tmp_path))
    for group in report.groups(rows):
        members = {row: rows[row].get(group.name, []) for row in rows}
        configs = [trial.config for row in members.values() for trial in row]
        for key in {key for config in configs for key in config} - {"train.init_from"}:
            alike = all(config.get(key) == configs[0].get(key) for config in configs)
            assert (key in group.equal) == alike
            assert (key in group.varied) != alike
            for row, values in group.varied.get(key, {}).items():
                has = [t.config[key] for t in members[row] if key in t.config]
                assert values == list(dict.fromkeys(has))


def test_provenance_shows_every_value(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    path = planned[0].folder / "result.json"
    path.write_text(path.read_text().replace('"abc"', '"other"'))
    facts = report.provenance(fake_sweep.rows(trials.read(tmp_path)))
    assert set(facts["commit"].split("; ")) == {"abc", "other"}
    assert facts["packages"] == "jax 1"
