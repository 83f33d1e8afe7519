"""Reports: the configs of a group are compared, and provenance shows every value."""

import pytest

from launch.reports import cells, forest, report, report_pages
from launch.reports.default_table import default_table
from launch.sweeps import sweep_plan
from research.record.workdir import write_result
from tests.testing import fake_sweep


def test_equal_and_varied_keys_are_those_of_the_configs(tmp_path):
    fake_sweep.finished(tmp_path)
    rows = fake_sweep.rows(sweep_plan.read_plan(tmp_path))
    for group in report.compare_configs(rows):
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
    result = planned[0].result
    result["provenance"]["commit"] = "other"
    write_result(planned[0].folder, result)
    facts = report.provenance(fake_sweep.rows(sweep_plan.read_plan(tmp_path)))
    assert set(facts["commit"].split("; ")) == {"abc", "other"}
    assert facts["packages"] == "jax 1"


def test_a_table_says_at_which_rate_all_are_evaluated(tmp_path):
    trials = fake_sweep.finished(tmp_path)
    assert "are evaluated at" not in default_table(trials).note
    for trial, rate in zip(trials, (0.2, 0.4), strict=False):
        phases = [[1, {"objective.rate": rate, "data.length": 32}]]
        trial.config.update({"train.phases": phases})
    for trial in trials:
        trial.config["objective.rate"] = 0.15
    line = "all rows are evaluated at objective.rate=0.15."
    assert default_table(trials).note.endswith(line)
    trials[0].config["objective.rate"] = 0.3
    assert "are evaluated at" not in default_table(trials).note


LINES = "95 % confidence intervals"
FEW, PAPER = "fewer than three seeds, too few for an interval", "diamonds"


@pytest.mark.parametrize(
    ("seeds", "papers", "said"),
    [
        (3, True, {LINES, PAPER}),
        (3, False, {LINES}),
        (2, True, {FEW, PAPER}),
        (2, False, {FEW}),
    ],
)
def test_a_caption_explains_the_marks_that_are_drawn(
    tmp_path, monkeypatch, seeds, papers, said
):
    trials = fake_sweep.finished(tmp_path)
    chosen = [trial for trial in trials if trial.config["seed"] < seeds]
    table = fake_sweep.TABLE if papers else fake_sweep.TABLE._replace(papers={})
    grid = cells.fill_table(table, chosen)
    groups = forest.difference_groups(table, grid)
    text = forest.legend(groups)
    assert {words for words in (LINES, FEW, PAPER) if words in text} == said
    figures = []
    monkeypatch.setattr(forest, "svg_element", figures.append)
    forest.draw_forest(groups)
    (panel,) = figures[0].axes
    intervals = [line for line in panel.lines if len({*line.get_xdata()}) == 2]
    diamonds = [line for line in panel.lines if line.get_marker() == "D"]
    assert (bool(intervals), bool(diamonds)) == (LINES in said, PAPER in said)


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("ended", ""),
        ("logged once", "no loss was logged at two steps"),
        ("running", "no run has ended"),
    ],
)
def test_a_report_without_curves_says_why(tmp_path, state, reason):
    trials = fake_sweep.finished(tmp_path)
    for trial in trials:
        if state == "running":
            (trial.folder / "result.json").unlink()
        if state == "logged once":
            *_, last = (trial.folder / "metrics.jsonl").read_text().splitlines()
            (trial.folder / "metrics.jsonl").write_text(f"{last}\n")
    made = report.make_report(default_table(trials), trials)
    assert reason in made.no_curves and bool(reason) == bool(made.no_curves)
    assert ("curve-1.svg" in made.figures) != bool(reason)
    for page in (report_pages.markdown_page(made), report_pages.html_page(made)):
        assert ("No loss curves" in page) == bool(reason)
    without = default_table(trials)._replace(curves=())
    assert "curves=(Curve" in report.make_report(without, trials).no_curves
