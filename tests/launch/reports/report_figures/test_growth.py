"""Figures of a column over the number in its rows' names."""

import math
from types import SimpleNamespace

from launch.reports.report_figures import growth
from launch.reports.tables import Column, Table

TABLE = Table(
    title="By tokens",
    row_header="objective, tokens",
    note="",
    rows=lambda trials: {},
    columns=(Column("tags", "POS", lambda trial: 0.0),),
)
MEANS = {"lm, 2 M": 70.0, "no pretraining": 50.0, "plm, 2 M": 45.0, "lm, 0.5 M": 60.0}


def grid(means):
    return {
        row: {"tags": SimpleNamespace(numbers=[1], estimate=(mean, math.nan, 1))}
        for row, mean in means.items()
    }


def test_a_line_is_of_the_rows_that_differ_in_the_number_and_others_are_levels(
    monkeypatch,
):
    drawn = []
    monkeypatch.setattr(growth, "svg_element", drawn.append)
    growth.draw_growth(TABLE, grid(MEANS), "tags")
    (panel,) = drawn[0].axes
    lines = [[*map(tuple, line.get_xydata())] for line in panel.lines]
    assert [(0.5, 60.0), (2.0, 70.0)] in lines
    assert [(2.0, 45.0)] in lines
    assert [(0.0, 50.0), (1.0, 50.0)] in lines
    assert panel.get_xlabel() == "tokens, M"
    _, labels = panel.get_legend_handles_labels()
    assert {*labels} == {"lm", "plm", "no pretraining"}


def test_one_point_a_line_is_no_growth():
    assert growth.has_points(grid(MEANS), "tags")
    assert not growth.has_points(grid({"lm, 2 M": 70.0, "plm, 2 M": 45.0}), "tags")
