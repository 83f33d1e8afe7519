"""Tables: means, intervals and tests of trials; missing runs are refused."""

import re

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
