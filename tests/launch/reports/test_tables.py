"""Tables: means, intervals and tests of trials; missing runs are refused."""

import re
import shutil

import pytest

from launch.reports import tables
from launch.sweeps import sweep_plan
from research.errors import UserError
from research.evaluation.statistics import estimate, paired_test
from tests.testing import fake_sweep


def test_a_cell_is_the_mean_of_its_trials_with_interval_and_test(tmp_path):
    fake_sweep.finished(tmp_path)
    grid = tables.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
    for row, scores in fake_sweep.SCORES.items():
        cell = grid[row]["score"]
        assert sorted(cell.values) == sorted(scores)
        assert cell.estimate == estimate(cell.values)
    expected = paired_test(fake_sweep.SCORES["mlm"], fake_sweep.SCORES["none"])
    assert grid["mlm"]["score"].p == expected
    assert grid["none"]["score"].p is None
    assert grid["none"]["size, M"] is None


def test_pairs_are_matched_by_seed_not_by_order(tmp_path):
    fake_sweep.finished(tmp_path)
    trials = sweep_plan.read_plan(tmp_path)
    reverse = tables.fill_table(fake_sweep.TABLE, trials[::-1])
    straight = tables.fill_table(fake_sweep.TABLE, trials)
    assert reverse["lm"]["score"].p == straight["lm"]["score"].p


def test_a_missing_run_is_refused_by_name(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    for trial in planned:
        path = trial.folder / "result.json"
        content = path.read_text()
        path.unlink()
        with pytest.raises(
            UserError, match=re.escape(f"1 run is missing: {trial.name}")
        ):
            tables.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
        path.write_text(content)


def _edit(trial, other):
    path = trial.folder / "result.json"
    path.write_text(path.read_text().replace("71.0", "99.0"))


def _copy(trial, other):
    shutil.copy(other.folder / "result.json", trial.folder / "result.json")


def _truncate(trial, other):
    path = trial.folder / "result.json"
    path.write_text(path.read_text()[:100])


def _other_metrics(trial, other):
    shutil.copy(other.folder / "metrics.jsonl", trial.folder / "metrics.jsonl")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_edit, "was changed after the run wrote it"),
        (_copy, "is not that of lm seed=0.*: seed is 1 there and 0 in"),
        (_truncate, "is damaged"),
        (_other_metrics, "test/score is 71.0 there and 72.5 in metrics.jsonl"),
    ],
)
def test_a_result_that_is_not_its_runs_is_refused(tmp_path, damage, words):
    planned = fake_sweep.finished(tmp_path)
    damage(*fake_sweep.rows(planned)["lm"]["second"][:2])
    with pytest.raises(UserError, match=words):
        tables.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:100],
        lambda text: "[1]",
        lambda text: re.sub(r'"id": "[0-9a-f]{12}"', '"id": "../../x"', text, count=1),
        lambda text: text.replace('"overrides"', '"override"'),
        lambda text: text.replace('"train.steps": 20', '"train.steps": 21', 1),
        lambda text: text.replace('"name": "', '"name": 1, "x": "', 1),
        lambda text: '{"trials": [' + "[" * 9999,
        lambda text: text.replace('"name"', '"folder": "../../x", "name"', 1),
        lambda text: '{"trials": 3}',
        lambda text: text.replace('"trials"', '"trial"'),
    ],
)
def test_a_damaged_plan_is_one_line(tmp_path, change):
    fake_sweep.finished(tmp_path)
    path = tmp_path / "sweep.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=r"sweep.json is damaged"):
        sweep_plan.read_plan(tmp_path)


def test_a_row_without_trials_is_refused(tmp_path):
    fake_sweep.finished(tmp_path)
    trials = [
        t for t in sweep_plan.read_plan(tmp_path) if "train.init_from" in t.parents
    ]
    with pytest.raises(UserError, match="no trial of the sweep fills row lm"):
        tables.fill_table(fake_sweep.TABLE, trials)


def test_two_trials_of_one_seed_are_refused(tmp_path):
    fake_sweep.finished(tmp_path)
    trials = sweep_plan.read_plan(tmp_path)
    with pytest.raises(UserError, match="share seed"):
        tables.fill_table(fake_sweep.TABLE, trials + trials)


@pytest.mark.parametrize("baseline, value", [("nothing", "parameters"), ("", "x.y")])
def test_an_unknown_row_or_metric_is_refused(tmp_path, baseline, value):
    fake_sweep.finished(tmp_path)
    column = tables.Column("x", "first", value)
    wrong = fake_sweep.TABLE._replace(baseline=baseline, columns=(column,))
    with pytest.raises(UserError, match="unknown"):
        tables.fill_table(wrong, sweep_plan.read_plan(tmp_path))
