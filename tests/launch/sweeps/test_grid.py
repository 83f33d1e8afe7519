"""A sweep of keys that the command line names."""

import pytest

from launch import sweep
from launch.reports import cells
from launch.reports.table_files import sweep_table
from launch.sweeps import sweep_plan
from launch.sweeps.grid import grid, split
from research.contract.errors import UserError
from tests.testing.fake_sweep import write_run

MLM = "experiments/mlm.py"


def test_values_are_split_at_commas_outside_brackets():
    assert split("a,[1,2],{(x,y),z}") == ["a", "[1,2]", "{(x,y),z}"]


def plan(workdir, keys, seeds=2, **shared):
    of_keys = grid(MLM, keys, seeds)
    trials = sweep_plan.make_plan(MLM, workdir, of_keys, scale="smoke", shared=shared)
    sweep_plan.write_plan(trials, workdir)
    return trials


def test_rows_are_the_combinations_of_values_each_with_all_seeds(tmp_path):
    keys = ["objective.rate=.1,.2", "train.steps=300,400"]
    found = [
        (trial.row, trial.config["seed"], trial.config["objective.rate"])
        for trial in plan(tmp_path, keys)
    ]
    assert found[:3] == [
        ("rate=.1, steps=300", 0, 0.1),
        ("rate=.1, steps=300", 1, 0.1),
        ("rate=.1, steps=400", 0, 0.1),
    ]
    assert len(found) == 8


def test_rows_of_phases_say_what_changes_until_when():
    def rows(*values):
        keys = [f"train.phases={','.join(values)}"]
        return [row for *_, (row, _) in grid(MLM, keys, 1)("smoke")]

    one, two = '[[1,{"objective.rate":0.4}]]', '[[0.5,{"data.length":64}],[0.9,{}]]'
    assert rows("[]", one, two) == [
        "phases=[]",
        "rate=0.4 to 100 % of steps",
        "length=64 to 50 % of steps, then unchanged to 90 % of steps",
    ]
    other = '[[1,{"model.rate":0.4}]]'  # whose short name would be that of `one`
    assert rows(one, other) == [f"phases={one}", f"phases={other}"]
    assert rows("[[1]]") == ["phases=[[1]]"]


def test_a_name_has_what_differs_and_not_what_all_share(tmp_path):
    shared = {"train.steps": "30", "model.width": "64"}  # texts, as of the command line
    trials = plan(tmp_path, ["objective.rate=.15,.3"], **shared)
    assert [trial.name for trial in trials[1:3]] == [
        "rate=.15, pretraining seed=1",
        "rate=.3, pretraining seed=0",
    ]


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ("objective.rate=.5,.9", "objective.rate"),
        ("objective.name=mlm,lm", "objective.name"),
        ("optimizer.beta2=.5,.9", ""),
    ],
)
def test_losses_of_other_predictions_have_no_verdict(tmp_path, keys, named):
    trials = plan(tmp_path, [keys], seeds=3)
    for number, trial in enumerate(trials):
        loss = 3.0 - (number // 3) + number / 100
        own = {"valid/loss": loss, "valid/mlm": loss, "valid/accuracy": 0.5 / loss}
        write_run(trial, own)
    table, trials = sweep_table("", tmp_path)
    assert [column.name for column in table.columns] == ["loss", "accuracy"]
    assert {column.tested for column in table.columns} == {not named}
    assert (f"Rows differ in {named}: their losses" in table.note) == bool(named)
    grid_of_cells = cells.fill_table(table, trials)
    assert cells.is_complete(grid_of_cells)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "give --sweep=F, a file of experiments/sweeps, or --config=F"),
        (["--sweep=a.py", f"--config={MLM}"], "give --sweep=F"),
        (["--sweep=a.py", "--sweep_keys=a=1"], "needs --config=F; leave it out"),
        ([f"--config={MLM}", "--sweep_keys=objective.rate"], "give KEY=VALUE,VALUE"),
        ([f"--config={MLM}", "--sweep_keys=seed=1,2"], "give --seeds=N"),
        ([f"--config={MLM}", "--sweep_keys=objective.rat=1"], "objective.rate"),
    ],
)
def test_wrong_flags_are_one_line(tmp_path, flags, words):
    with pytest.raises(UserError, match=words) as caught:
        sweep.run(sweep.parser().parse_args([f"--workdir={tmp_path}", *flags]))
    assert "\n" not in str(caught.value)
