"""Figures of the best place of each line: their points, caption and marks."""

import math
from types import SimpleNamespace

import pytest

from launch.reports.report_figures import optima
from launch.reports.tables import OptimumFigure

RATES = [1e-3 * 2**n for n in range(5)]
FIGURE = OptimumFigure(
    caption="Loss over the rate.",
    group="pretraining",
    place=lambda trial: trial.rate,
    value=lambda trial: trial.loss,
    line=lambda trial: trial.width,
    place_label="rate",
    line_label="width",
    value_label="loss",
    panel=lambda trial: trial.panel,
)


def trials(panel, width, best, loss=None):
    return [
        SimpleNamespace(
            panel=panel,
            width=width,
            rate=rate,
            loss=4 + math.log(rate / best) ** 2 if loss is None else loss,
        )
        for rate in RATES
    ]


def test_a_line_has_its_trials_and_the_caption_its_best_place(monkeypatch):
    given = [
        *trials("with", 64, 4e-3),
        *trials("with", 128, 4e-3),
        *trials("with", 256, 4e-3),
        *trials("without", 64, 4e-3),
        *trials("without", 128, 2e-3),
        *trials("without", 256, 1e-4),
        *trials("without", 512, 1, loss=math.nan),
    ]
    panels = optima.found_optima(FIGURE, given)
    assert {title: [*lines] for title, lines in panels.items()} == {
        "with": [64, 128, 256],
        "without": [64, 128, 256],
    }
    text = optima.caption(FIGURE, panels)
    assert "with: rate at the least loss: width 64: 0.004 [0.004, 0.004]" in text
    assert "to the power" in text.split("without:")[0]
    assert "width 256: none within what was tried" in text.split("without:")[1]
    assert "to the power" not in text.split("without:")[1]
    figures = []
    monkeypatch.setattr(optima, "svg_element", figures.append)
    optima.draw_optima(FIGURE, panels)
    stars = [
        [line.get_xdata()[0] for line in panel.lines if line.get_marker() == "*"]
        for panel in figures[0].axes
    ]
    assert stars == [pytest.approx([4e-3] * 3), pytest.approx([4e-3, 2e-3])]


def test_no_figure_without_values():
    assert not optima.found_optima(FIGURE, trials("with", 64, 1, loss=math.inf))
