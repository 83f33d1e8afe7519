"""All figures of reports, by listing their folder."""

import pytest

from launch.reports import report_figures
from launch.reports.table_files import load_table
from launch.reports.tables import Table
from research.contract.errors import UserError

EMPTY = Table("", "", "", lambda trials: {}, ())


@pytest.mark.parametrize("name", report_figures.FOLDER.names())
def test_a_table_without_rows_has_no_figures(name):
    figures = report_figures.FOLDER.part_class(name, "figures")()
    assert issubclass(type(figures), report_figures.Figures)
    assert not list(figures.drawn(EMPTY, {}, {}))


def test_a_report_draws_those_of_every_module(monkeypatch):
    drawn = report_figures.Drawn("one.svg", "One.", "<svg/>")
    for name in report_figures.FOLDER.names():
        cls = report_figures.FOLDER.part_class(name, "figures")
        monkeypatch.setattr(cls, "drawn", lambda *args: iter([drawn]))
    found = list(report_figures.all_drawn(EMPTY, {}, {}))
    assert found == [drawn] * len(report_figures.FOLDER.names())


@pytest.mark.parametrize("name", report_figures.FOLDER.names())
def test_a_file_of_a_table_names_the_columns_of_those_that_take_them(name, tmp_path):
    """And of no others."""
    file = tmp_path / "table.toml"
    file.write_text(f'title = "a"\nnote = ""\ncolumns = ["MNLI"]\n{name} = ["MNLI"]')
    if report_figures.FOLDER.part_class(name, "figures").of_columns:
        assert load_table(str(file)).figures == {name: ("MNLI",)}
    else:
        with pytest.raises(UserError, match=f"unknown key of .* '{name}'"):
            load_table(str(file))
