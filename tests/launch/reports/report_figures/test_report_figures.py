"""All figures of reports, by listing their folder."""

import pytest

from launch.reports import report_figures
from launch.reports.tables import Table

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
