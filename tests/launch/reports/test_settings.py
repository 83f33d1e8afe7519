"""Of several settings of a fine-tuning one is picked; means of columns."""

import dataclasses

import pytest

from launch.reports import cells, tables
from launch.sweeps import status, sweep_plan
from launch.sweeps.tasks import Task
from research.contract.errors import UserError
from tests.testing import fake_sweep


def _two_rates(tmp_path):
    """Runs of two learning rates: the higher is better in valid, and worse in test."""
    file = tmp_path / "rates.py"
    file.write_text(
        "def sweep(scale):\n"
        "    for seed in range(2):\n"
        "        for rate in (0.1, 0.2):\n"
        "            keys = {'seed': seed, 'optimizer.learning_rate': rate}\n"
        "            yield 'experiments/lm.py', keys, ('row', 'task')\n"
    )
    planned = sweep_plan.make_plan(str(file), tmp_path, scale="smoke", shared={})
    sweep_plan.write_plan(planned, tmp_path)
    for trial in planned:
        rate = trial.config["optimizer.learning_rate"]
        metrics = {"valid/score": rate, "test/score": trial.config["seed"] - rate}
        fake_sweep.write_run(trial, metrics)
    return sweep_plan.read_plan(tmp_path)


def test_a_setting_is_picked_by_another_split_than_the_one_shown(tmp_path):
    trials = _two_rates(tmp_path)
    value, picked_by = "metrics.test/score", "metrics.valid/score"
    columns = (
        tables.Column("score", "task", value, picked_by=picked_by),
        tables.Column("twice", "task", value, picked_by=picked_by),
        tables.Column("mean", "", "", mean_of=("score", "twice", "absent")),
        tables.Column("absent", "other task", value),
    )
    table = tables.Table("t", "", "n", tables.labelled_rows, columns)
    table = tables.for_sweep(table, trials, {})
    assert [column.name for column in table.columns] == ["score", "twice", "mean"]
    assert "Not run here: absent." in table.note
    grid = cells.fill_table(table, trials)
    assert grid["row"]["score"].values == pytest.approx((-0.2, 0.8))
    assert grid["row"]["mean"].values == pytest.approx((-0.2, 0.8))
    assert [len(number.trials) for number in grid["row"]["mean"].numbers] == [2, 2]
    assert table.columns[2].header == "mean (here: mean of score, twice)"
    named = tables.for_sweep(table, trials, {"task": Task("A", {})})
    assert named.columns[2].header == "mean (here: mean of A for score, A for twice)"
    lowest = table._replace(columns=(columns[0]._replace(better="lower"),))
    grid = cells.fill_table(lowest, trials)
    assert grid["row"]["score"].values == pytest.approx((-0.1, 0.9))
    plain = table._replace(columns=(columns[0]._replace(picked_by=""),))
    with pytest.raises(UserError, match="share seed"):
        cells.fill_table(plain, trials)


def test_a_setting_that_has_diverged_is_the_worst(tmp_path):
    trials = _two_rates(tmp_path)
    column = tables.Column(
        "score", "task", "metrics.test/score", picked_by="metrics.valid/score"
    )
    table = tables.Table("t", "", "n", tables.labelled_rows, (column,))
    fake_sweep.diverge(trials[1])  # the higher rate of seed 0, which is the best
    cell = cells.fill_table(table, trials)["row"]["score"]
    assert cell.values == pytest.approx((-0.1, 0.8)) and not cell.diverged
    fake_sweep.diverge(trials[0])
    cell = cells.fill_table(table, trials)["row"]["score"]
    assert not cell.numbers and len(cell.diverged) == 2


def test_the_name_of_a_cell_selects_no_other(tmp_path):
    trials = _two_rates(tmp_path)
    other = dataclasses.replace(trials[0], name="row, task and more", group="more")
    assert status.select([*trials, other], "row, task") == trials
    assert status.select([other], "row, task") == [other]
