"""Every table of experiments/tables: its sweep plans at each scale."""

import functools
import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.paper_tables import benchmarks, finetuning
from experiments.tables import babylm
from launch.config import load_config
from launch.reports import cells, ledger, tables
from launch.sweeps import budgets, published, sweep_plan
from launch.sweeps.sweep_plan import SCALES
from launch.sweeps.tasks import Task
from research.errors import UserError

FOLDER = Path(tables.__file__).parents[2] / "experiments"
NAMES = sorted(path.stem for path in (FOLDER / "sweeps").glob("*.py"))
NAMES = [name for name in NAMES if (FOLDER / "tables" / f"{name}.py").exists()]
KEYS = {"data.train": "a.tsv", "data.valid": "b.tsv", "data.fields": "0"}
TASKS = {"MNLI": Task("SICK", KEYS | {"data.label": "1"})}
QUESTIONS = Task("", KEYS | {"objective.name": "question_answering"})


@functools.cache
def _plan(name, scale):
    """The trials of a sweep, with one seed and one learning rate."""
    file = f"experiments/sweeps/{name}.py"
    tasks = {} if name.startswith("objectives") else TASKS
    return sweep_plan.make_plan(file, "runs/x", scale=scale, shared={}, tasks=tasks)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """One seed, one learning rate, and no FLOPs counted."""
    one = {scale: finetuning.Repeats(1, 1, (1e-3,)) for scale in SCALES}
    monkeypatch.setattr(finetuning, "REPEATS", one)
    monkeypatch.setattr(budgets, "step_flops", lambda experiment, keys: 1e9)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", NAMES)
def test_every_sweep_plans_and_its_table_knows_each_trial(name, scale):
    trials = _plan(name, scale)
    table = tables.load_table(f"experiments/tables/{name}.py")
    table = tables.for_sweep(table, trials, TASKS)
    rows = tables.table_rows(table, trials)
    shown = [t.id for row in rows.values() for group in row.values() for t in group]
    assert sorted(shown) == sorted(trial.id for trial in trials)
    grid = cells.fill_table(table, trials)
    assert list(grid) == list(rows) and not cells.is_complete(grid)


PAPERS = [name for name in NAMES if not name.startswith(("objectives", "babylm"))]


@pytest.mark.parametrize("name", PAPERS)
def test_a_scale_does_not_change_the_question(name):
    """At each scale the rows are the arms of the ledger."""
    table = tables.load_table(f"experiments/tables/{name}.py")
    paper = published.read_published(name.replace("_", "-"))
    by_scale = {scale: tables.labelled_rows(_plan(name, scale)) for scale in SCALES}
    assert {tuple(rows) for rows in by_scale.values()} == {tuple(by_scale["smoke"])}
    assert set(by_scale["smoke"]) == set(paper.arms)
    assert all((row, column) in table.papers for row, column in table.papers)
    assert {row for row, _ in table.papers} >= set(paper.arms)
    for rows in by_scale.values():
        for row, groups in rows.items():
            for trial in groups.get("pretraining", ()):
                own = paper.arms[row][1]
                assert {key: trial.config[key] for key in own} == own


def test_a_fine_tuning_has_the_network_of_its_pretraining(tmp_path):
    for trial in _plan("bart1", "smoke"):
        if start := trial.parents.get("train.init_from"):
            for key, value in start.config.items():
                if key.startswith("model.") and key != "model.dropout":
                    assert trial.config[key] == value, key
            assert trial.config["data.length"] == start.config["data.length"]


def test_babylm_sees_no_text_more_than_ten_times():
    words = {"small": 10e6, "paper": 100e6}
    for scale, given in words.items():
        for trial in _plan("babylm", scale):
            if trial.group == "pretraining":
                keys = ("train.steps", "train.batch", "data.length")
                tokens = math.prod(trial.config[key] for key in keys)
                assert tokens / 1.3 / given == pytest.approx(10, rel=1e-3)
                assert trial.config["train.keep_checkpoints"] == 10
    rows = {trial.row for trial in _plan("babylm", "smoke")}
    assert len(rows) >= 12 and "GPT-BERT 15 : 1" in rows


def test_a_task_that_an_objective_cannot_read_is_no_cell():
    trials = finetuning.tunings(
        finetuning.pretraining("", ("experiments/lm.py", {}), "smoke"),
        QUESTIONS,
        "smoke",
        {},
    )
    assert not list(trials)


def test_a_task_by_features_tunes_its_head_alone(monkeypatch):
    repeats = {"smoke": finetuning.Repeats(1, 1, (1e-4, 3e-4))}
    monkeypatch.setattr(finetuning, "REPEATS", repeats)
    words = Task("WNUT-17", KEYS | {"objective.name": "token_classification"})
    tasks = {"NER": words, "NER by features": words}
    trials = [
        (group, keys)
        for _, keys, (row, group) in finetuning.sweep("bert8", "smoke", tasks)
        if row == "80 10 10"
    ]
    rates, frozen = {}, {}
    for group, keys in trials[1:]:
        rates.setdefault(group, []).append(keys["optimizer.learning_rate"])
        start = {"train.init_from": "", "data.vocabulary": "unigram"}
        config = load_config(finetuning.EXPERIMENT, keys | start)
        frozen[group] = config.optimizer.frozen
    assert rates == {"NER": [1e-4, 3e-4], "NER by features": [1e-3]}
    assert frozen == {"NER": "", "NER by features": "token,place,stack"}


def test_tasks_that_a_table_does_not_have_are_refused():
    with pytest.raises(UserError, match="none of the tasks of Devlin"):
        finetuning.table_tasks("bert8", {"CoLA": TASKS["MNLI"]})


def test_babylm_reads_the_scores_of_the_last_step(tmp_path):
    for step in (900, 1523):
        folder = tmp_path / "evaluations" / f"blimp-a-b.original-{step}-0123abcd"
        folder.mkdir(parents=True)
        (folder / "scores.jsonl").touch()
    files = babylm.blimp_files(SimpleNamespace(folder=tmp_path))
    assert "-1523-" in str(files[-1])


def test_the_parts_of_a_mean_come_before_it():
    found = benchmarks.columns(("GLUE", "CNN/DM ROUGE-2", "SQuAD EM"))
    assert list(found) == [*benchmarks.MEANS["GLUE"], "GLUE", "SQuAD EM"]
    found = benchmarks.columns(("MNLI", "SST-2", "average"))
    assert found["average"] == ("MNLI", "SST-2")


def test_every_arm_of_the_ledger_has_a_config():
    for claim in ledger.load_claims(published.FOLDER).values():
        for arm in filter(None, claim.arms):
            load_config(*arm)
