"""Reports: the configs of a group are compared, and provenance shows every value."""

import pytest

from launch.reports import report, report_pages
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
