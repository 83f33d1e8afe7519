"""Sweep plans: a trial is identified by its config, and parents come first."""

import json
from pathlib import Path

import pytest

from launch import config, train
from launch.sweeps import sweep_plan
from launch.sweeps.tasks import Task
from research.contract.errors import UserError


def _plan(file, workdir="runs/x", **shared):
    return sweep_plan.make_plan(file, workdir, scale="smoke", shared=shared)


def test_parents_come_first_and_only_once(sweep_file):
    first, *others = _plan(sweep_file)
    assert first.config["objective.name"] == "mlm" and not first.parents
    assert [trial.parents.get("train.init_from") for trial in others] == [
        first,
        first,
        None,
    ]
    assert len({trial.id for trial in [first, *others]}) == 4
    assert len({trial.name for trial in [first, *others]}) == 4


def test_ids_do_not_depend_on_paths(sweep_file, tmp_path):
    ids = [trial.id for trial in _plan(sweep_file)]
    assert [trial.id for trial in _plan(sweep_file, tmp_path)] == ids
    assert [t.id for t in _plan(sweep_file, **{"data.cache_dir": str(tmp_path)})] == ids


def test_a_change_of_a_parent_changes_the_ids_of_its_children(sweep_file):
    before = _plan(sweep_file)
    text = Path(sweep_file).read_text()
    Path(sweep_file).write_text(text.replace('"train.steps": 3', '"train.steps": 4'))
    after = _plan(sweep_file)
    changed = [old.id != new.id for old, new in zip(before, after, strict=True)]
    assert changed == [True, True, True, False]


def test_a_shared_key_does_not_replace_a_trials_own(sweep_file):
    planned = _plan(sweep_file, **{"train.steps": "9", "model.layers": "2"})
    assert [trial.config["train.steps"] for trial in planned] == [3, 9, 9, 7]
    assert {trial.config["model.layers"] for trial in planned} == {2}
    Path(sweep_file).write_text(
        "def sweep(scale):\n  yield 'experiments/lm.py', {'seed': 1}"
    )
    with pytest.raises(UserError, match="seed: every trial"):
        _plan(sweep_file, seed="3")


def test_a_repeat_has_later_seeds_and_is_otherwise_the_same(sweep_file):
    make = sweep_plan.make_plan
    first = make(sweep_file, "runs/x", scale="smoke", shared={})
    again = make(sweep_file, "runs/x", scale="smoke", shared={}, first_seed=6)
    for one, other in zip(first, again, strict=True):
        assert other.config["seed"] == one.config["seed"] + 6
        assert other.pretraining_seed == one.pretraining_seed + 6
        differing = {k for k in one.config if one.config[k] != other.config[k]}
        assert differing == {"seed", *one.parents}
    with pytest.raises(UserError, match="both set seeds"):
        make(sweep_file, "r", scale="smoke", shared={"seed": "1"}, first_seed=6)


def test_the_first_seeds_of_each_row(sweep_file):
    """Rows may have other seeds; a fine-tuning has the seed of its pretraining."""
    Path(sweep_file).write_text(
        "def sweep(scale):\n"
        "  for row, seeds in (('a', (0, 1, 2)), ('choice', (10,))):\n"
        "    for seed in seeds:\n"
        "      one = 'experiments/lm.py', {'seed': seed, 'train.steps': len(row)}\n"
        "      yield *one, (row, 'pretraining')\n"
        "      for own in (0, 1):\n"
        "        keys = {'train.init_from': one, 'seed': own, 'train.steps': 9}\n"
        "        yield 'experiments/lm.py', keys, (row, 'task')\n"
    )
    make, wanted = sweep_plan.make_plan, [("a", 0), ("a", 1), ("choice", 10)]
    planned = make(sweep_file, "runs/x", scale="smoke", shared={}, seeds=2)
    for group, times in (("pretraining", 1), ("task", 2)):
        found = [(t.row, t.pretraining_seed) for t in planned if t.group == group]
        assert found == [each for each in wanted for _ in range(times)]
    later = make(sweep_file, "r", scale="smoke", shared={}, seeds=1, first_seed=6)
    assert {(t.row, t.pretraining_seed) for t in later} == {("a", 6), ("choice", 16)}
    whole = {t.id: t for t in make(sweep_file, "r", scale="smoke", shared={})}
    assert [whole[t.id].name for t in planned] == [t.name for t in planned]


def test_a_wrong_value_of_a_trial_names_the_sweep(sweep_file):
    Path(sweep_file).write_text(
        "def sweep(scale):\n  yield 'experiments/lm.py', {'seed': None}"
    )
    with pytest.raises(
        UserError, match=rf"{sweep_file}: experiments/lm.py: seed must be "
    ):
        _plan(sweep_file)


def test_a_trials_command_loads_its_config(sweep_file, tmp_path, monkeypatch):
    monkeypatch.setattr("launch.config.check_needed", lambda *_: None)
    for trial in _plan(sweep_file, tmp_path, **{"data.mixture": '{"a b": 1}'}):
        args = train.parser().parse_args(trial.arguments)
        loaded = config.load_config(args.config, args.overrides).flat
        folders = {key: str(p.folder) for key, p in trial.parents.items()}
        assert loaded == trial.config | folders
        assert args.workdir == str(trial.folder)


def test_a_written_plan_is_read_back(sweep_file, tmp_path):
    planned = _plan(sweep_file, tmp_path)
    sweep_plan.write_plan(planned, tmp_path, scale="smoke")
    for old, new in zip(planned, sweep_plan.read_plan(tmp_path), strict=True):
        assert (old.id, old.name, old.folder) == (new.id, new.name, new.folder)
        assert json.dumps(old.config) == json.dumps(new.config)
        assert [p.id for p in old.parents.values()] == [
            p.id for p in new.parents.values()
        ]
    with pytest.raises(UserError, match="holds no sweep"):
        sweep_plan.read_plan(tmp_path / "nowhere")


def test_a_trial_without_its_parents_is_refused(sweep_file, tmp_path):
    sweep_plan.write_plan(_plan(sweep_file, tmp_path), tmp_path, scale="smoke")
    plan = json.loads((tmp_path / "sweep.json").read_text())
    plan["trials"][1]["parents"] = {}
    (tmp_path / "sweep.json").write_text(json.dumps(plan))
    with pytest.raises(UserError, match=r"another version .* are not those of"):
        sweep_plan.read_plan(tmp_path)


def test_a_trial_has_the_network_of_the_run_that_it_starts_or_learns_from(tmp_path):
    """As the run itself takes it (`load_config`); what a sweep sets stays."""
    file = tmp_path / "sweep.py"
    file.write_text(
        "def sweep(scale):\n"
        "    first = 'experiments/mlm.py', {'model.width': 96, 'model.heads': 3}\n"
        "    own = {'train.init_from': first, 'model.heads': 6}\n"
        "    yield 'experiments/lm.py', own\n"
        "    own = {'train.init_from': first, 'train.init_layers': [1]}\n"
        "    taught = {'objective.name': 'distill', 'objective.teacher': first}\n"
        "    yield 'experiments/mlm.py', own | taught\n"
        "    own = {'train.init_from': first, 'data.train': 'a.tsv'}\n"
        "    yield 'experiments/lm.py', own | {'data.valid': 'b.tsv'}\n"
    )
    first, second, third, other_text = sweep_plan.make_plan(
        str(file), tmp_path, scale="smoke", shared={}
    )
    keys = ("model.width", "model.heads", "model.layers")
    assert [second.config[key] for key in keys] == [96, 6, 4]
    assert [third.config[key] for key in keys] == [96, 3, 1]
    teacher = {"network": "transformer", "width": 96, "heads": 3}
    assert third.config["objective.teacher_model"] == teacher
    assert third.objective.name == "distill"  # whose teacher no folder has yet
    assert third.overrides.keys() & {"model.norm", "data.vocabulary"} == set()
    assert other_text.parents["data.vocabulary"] is first
    assert f"--config.data.vocabulary={first.folder}" in other_text.arguments
    assert "data.vocabulary" not in second.parents  # it would train the same one


TABLE = """
from launch.sweeps import finetuning

def sweep(scale, tasks):
    t5 = finetuning.pretraining("", ("experiments/t5.py", {}), scale)
    for row, own in (("t5", %s), ("lm", %s)):
        arm = f"experiments/{row}.py", own
        keys = lambda row, base: finetuning.like(t5, base)
        start = finetuning.pretraining(row, arm, scale, keys=keys)
        yield from finetuning.with_baseline(
            row, start, tasks, scale, {}, fresh=row + " as drawn"
        )
"""


def _table(tmp_path, own, other, **shared):
    """A plan of t5, and of lm with t5's network; both have keys of their own."""
    file = tmp_path / "table.py"
    file.write_text(TABLE % (own, other))
    texts = {"data.train": "a.csv", "data.valid": "b.csv"}
    return sweep_plan.make_plan(
        str(file), tmp_path, scale="smoke", shared=shared, tasks={"t": Task("", texts)}
    )


def test_a_shared_key_is_that_of_all_rows_and_of_what_starts_from_them(tmp_path):
    """Of rows that are made like another one, too, and of untrained networks."""
    shared = {"model.activation": "gelu_tanh", "model.product_dtype": "bfloat16"}
    planned = _table(tmp_path, {}, {}, **shared, **{"data.vocabulary": "bpe"})
    assert len(planned) == 6
    for trial in planned:
        assert {key: trial.config[key] for key in shared} == shared, trial.name
        is_first = trial.group == "pretraining"
        assert (trial.config["data.vocabulary"] == "bpe") == is_first


def test_a_shared_key_that_some_rows_set_themselves_is_refused(tmp_path, capsys):
    relu, gelu = ({"model.activation": value} for value in ("relu", "gelu"))
    with pytest.raises(
        UserError, match=r"model\.activation: .* 1 of its rows \('t5'\)"
    ):
        _table(tmp_path, relu, {}, **gelu)
    with pytest.raises(UserError, match=r"model\.activation: every trial"):
        _table(tmp_path, gelu, gelu, **relu)  # those as drawn, too
    assert not capsys.readouterr().err
    same = _table(tmp_path, relu, {}, **relu)
    assert {trial.config["model.activation"] for trial in same} == {"relu"}


def test_a_shared_key_that_every_row_sets_itself_is_told(tmp_path, capsys):
    none = {"model.dropout": 0.0}
    planned = _table(tmp_path, none, none, **{"model.dropout": "0.2"})
    rates = {(t.group == "pretraining", t.config["model.dropout"]) for t in planned}
    assert rates == {(True, 0.0), (False, 0.2)}
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("--config.model.dropout is for fine-tunings alone")


def test_what_starts_from_a_trial_has_its_network_before_a_shared_one(tmp_path):
    file = tmp_path / "sweep.py"
    file.write_text(
        "def sweep(scale):\n"
        "    first = 'experiments/mlm.py', {'model.activation': 'relu'}\n"
        "    own = {'train.init_from': first, 'data.train': 'a.tsv'}\n"
        "    yield 'experiments/lm.py', own | {'data.valid': 'b.tsv'}\n"
    )
    shared = {"model.activation": "swiglu", "data.vocabulary": "bpe"}
    first, second = _plan(str(file), tmp_path, **shared)
    assert second.config["model.activation"] == "relu"
    assert first.config["data.vocabulary"] == "bpe"
    assert second.parents["data.vocabulary"] is first
