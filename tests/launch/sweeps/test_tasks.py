"""Tasks of a TOML file: their config keys, and one line for what is wrong."""

import pytest

from launch.sweeps import sweep_plan
from launch.sweeps.tasks import Task, load_tasks
from research.contract.errors import UserError

TOML = """
[MNLI]
stand_in = "SICK"
data.train = "a.tsv"
data.valid = "b.tsv"
objective.task = "single"
"""
SWEEP = """
def sweep(scale, tasks):
    for name, task in tasks.items():
        keys = {**task.keys, "train.steps": 3}
        for seed in range(2):
            yield "experiments/finetune.py", keys | {"seed": seed}, ("row", name)
"""


@pytest.fixture
def file(tmp_path):
    for name in ("a.tsv", "b.tsv"):
        (tmp_path / name).write_text("text\tlabel\n")
    (tmp_path / "tasks.toml").write_text(TOML)
    return tmp_path / "tasks.toml"


def test_a_task_has_the_keys_of_its_table(file):
    (task,) = load_tasks(str(file)).values()
    folder = file.parent
    assert task.stand_in == "SICK"
    assert task.keys == {
        "data.train": f"{folder}/a.tsv",
        "data.valid": f"{folder}/b.tsv",
        "objective.task": "single",
    }


def test_a_task_may_have_a_rate_of_dropout(file):
    file.write_text(TOML + "model.dropout = 0.2\n")
    (task,) = load_tasks(str(file)).values()
    assert task.keys["model.dropout"] == 0.2


def test_a_task_may_divide_its_training_file(file):
    file.write_text(TOML.replace("valid", "split").replace("b.tsv", "0.8,0.1,0.1"))
    (task,) = load_tasks(str(file)).values()
    assert task.keys["data.split"] == "0.8,0.1,0.1"
    assert "data.valid" not in task.keys


def test_a_data_set_of_tfds_is_no_file(file):
    file.write_text(TOML.replace("b.tsv", "tfds:glue/mrpc"))
    (task,) = load_tasks(str(file)).values()
    assert task.keys["data.valid"] == "tfds:glue/mrpc"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"b.tsv"', '"c.tsv"', "MNLI: no file"),
        ('data.valid = "b.tsv"', "", "MNLI has no data.valid"),
        ("[MNLI]", "[MNLI", "is not TOML"),
        ("[MNLI]", "[MNLI]\ntrain.init_from = 'x'", "MNLI sets train.init_from, which"),
        ("[MNLI]", "[MNLI]\ndata.vocabulary = 'x'", "MNLI sets data.vocabulary"),
        ("[MNLI]", "[MNLI]\nmodel.width = 8", "MNLI sets model.width, which a fine"),
        ("[MNLI]", "QNLI = 3\n[MNLI]", "QNLI is not a table"),
    ],
)
def test_a_wrong_file_is_one_line(file, old, new, words):
    file.write_text(TOML.replace(old, new))
    with pytest.raises(UserError, match=words):
        load_tasks(str(file))


def test_a_sweep_names_the_rows_and_groups_of_its_trials(file, tmp_path):
    sweep = tmp_path / "sweep.py"
    sweep.write_text(SWEEP)

    def plan(tasks):
        return sweep_plan.make_plan(
            str(sweep), tmp_path, scale="smoke", shared={}, tasks=tasks
        )

    tasks = load_tasks(str(file))
    trials = plan(tasks)
    assert [trial.name for trial in trials] == ["row, MNLI seed=0", "row, MNLI seed=1"]
    written = {name: task._asdict() for name, task in tasks.items()}
    sweep_plan.write_plan(trials, tmp_path, tasks=written)
    read = sweep_plan.read_plan(tmp_path)
    assert {(trial.row, trial.group) for trial in read} == {("row", "MNLI")}
    assert sweep_plan.read_tasks(tmp_path) == tasks
    with pytest.raises(UserError, match="--tasks=FILE"):
        plan({})
    with pytest.raises(UserError, match="are the same trial"):
        plan({"MNLI": tasks["MNLI"], "QNLI": tasks["MNLI"]})
    sweep.write_text("def sweep(scale, tasks): return []")
    with pytest.raises(UserError, match=r"sweep\('smoke'\) gives no trial"):
        plan(tasks)
    sweep.write_text("def sweep(scale): return []")
    with pytest.raises(UserError, match="takes no tasks"):
        plan({"MNLI": Task("", {})})
