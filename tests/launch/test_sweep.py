"""Sweeps: a trial is its config, runs once, after those it starts from."""

import json
from pathlib import Path

import pytest

from launch import config, sweep, train
from launch.cli import main
from launch.sweeps import trials
from research.errors import UserError
from tests.testing import fake_backend

SWEEP = """
def sweep(scale):
    first = ("experiments/mlm.py", {"train.steps": 3})
    for seed in range(2):
        yield "experiments/lm.py", {"train.init_from": first, "seed": seed}
    yield "experiments/lm.py", {"train.steps": 7}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "trial.py"
    path.write_text(SWEEP)
    return str(path)


def _plan(file, workdir="runs/x", **shared):
    return trials.plan(file, workdir, scale="smoke", shared=shared)


def test_parents_come_first_and_once(file):
    first, *others = _plan(file)
    assert first.config["objective.name"] == "mlm" and not first.parents
    assert [trial.parents.get("train.init_from") for trial in others] == [
        first,
        first,
        None,
    ]
    assert len({trial.id for trial in [first, *others]}) == 4
    assert len({trial.name for trial in [first, *others]}) == 4


def test_ids_say_what_and_not_where(file, tmp_path):
    ids = [trial.id for trial in _plan(file)]
    assert [trial.id for trial in _plan(file, tmp_path)] == ids
    assert [t.id for t in _plan(file, **{"data.cache_dir": str(tmp_path)})] == ids


def test_a_parents_change_is_a_childs_change(file):
    before = _plan(file)
    Path(file).write_text(SWEEP.replace('"train.steps": 3', '"train.steps": 4'))
    after = _plan(file)
    changed = [old.id != new.id for old, new in zip(before, after, strict=True)]
    assert changed == [True, True, True, False]


def test_a_shared_key_leaves_a_trials_own(file):
    planned = _plan(file, **{"train.steps": "9", "model.layers": "2"})
    assert [trial.config["train.steps"] for trial in planned] == [3, 9, 9, 7]
    assert {trial.config["model.layers"] for trial in planned} == {2}
    Path(file).write_text("def sweep(scale):\n  yield 'experiments/lm.py', {'seed': 1}")
    with pytest.raises(UserError, match="seed: every trial"):
        _plan(file, seed="3")


def test_a_trials_command_loads_its_config(file, tmp_path):
    for trial in _plan(file, tmp_path, **{"data.mixture": '{"a b": 1}'}):
        args = train.parser().parse_args(trial.arguments)
        loaded = config.flatten(config.load(args.config, args.overrides))
        folders = {key: str(p.folder) for key, p in trial.parents.items()}
        assert loaded == trial.config | folders
        assert args.workdir == str(trial.folder)


def test_the_plan_reads_back(file, tmp_path):
    planned = _plan(file, tmp_path)
    trials.write(planned, tmp_path, scale="smoke")
    for old, new in zip(planned, trials.read(tmp_path), strict=True):
        assert (old.id, old.name, old.folder) == (new.id, new.name, new.folder)
        assert json.dumps(old.config) == json.dumps(new.config)
        assert [p.id for p in old.parents.values()] == [
            p.id for p in new.parents.values()
        ]
    with pytest.raises(UserError, match="holds no sweep"):
        trials.read(tmp_path / "nowhere")


@pytest.fixture
def engine(monkeypatch):
    return fake_backend.install(monkeypatch)


def _sweep(file, workdir, *flags):
    words = [f"--sweep={file}", f"--workdir={workdir}", "--on=fake", *flags]
    with pytest.raises(SystemExit) as caught:
        main(sweep.run, sweep.parser(), words)
    return caught.value.code


def test_only_what_has_no_result_runs(file, tmp_path, engine):
    started, _ = engine
    assert _sweep(file, tmp_path) == 0
    assert started == [trial.folder for trial in _plan(file, tmp_path)]
    assert _sweep(file, tmp_path) == 0
    assert len(started) == 4
    (started[2] / "result.json").unlink()
    assert _sweep(file, tmp_path) == 0
    assert started[4:] == [started[2]]


def test_a_failure_stops_those_that_need_it_alone(file, tmp_path, engine, capsys):
    started, codes = engine
    codes[0] = 2  # of the parent
    assert _sweep(file, tmp_path) == 1
    done = [trial.done for trial in _plan(file, tmp_path)]
    assert done == [False, False, False, True]
    assert len(started) == 2
    said = capsys.readouterr()
    assert said.err.count("since mlm has no result") == 2
    assert "the last line" in said.err
    assert "1 of 4 trials" in said.out


@pytest.mark.parametrize("retries, code", [(0, 1), (1, 1), (2, 0)])
def test_crashes_are_retried_within_the_budget(file, tmp_path, engine, retries, code):
    started, codes = engine
    codes.update({0: -9, 1: 1})
    assert _sweep(file, tmp_path, f"--retries={retries}") == code
    assert len(started) == 2 + retries + (2 if code == 0 else 0)


@pytest.mark.parametrize("parallel", [1, 2, 4])
def test_no_more_trials_at_a_time_than_asked_for(file, tmp_path, engine, parallel):
    assert _sweep(file, tmp_path, f"--parallel={parallel}") == 0
    assert fake_backend.Backend.max_alive == min(
        parallel, 2
    )  # two are ready at first, then two
    assert fake_backend.Backend.num_alive == 0


def test_an_interrupted_sweep_ends_its_jobs_and_goes_on(file, tmp_path, engine):
    started, codes = engine
    codes[1] = 130
    assert _sweep(file, tmp_path) == 130
    codes.clear()
    assert _sweep(file, tmp_path) == 0
    assert len(started) == 2 + 3


def test_dry_run_shows_and_leaves_nothing(file, tmp_path, engine, capsys):
    workdir = tmp_path / "new"
    assert _sweep(file, workdir, "--dry_run") == 0
    said = capsys.readouterr().out
    assert all(trial.id in said for trial in _plan(file, workdir))
    assert not workdir.exists() and not engine[0]


@pytest.mark.parametrize(
    "flag, said",
    [
        ("--on=slrum:gpu", "slurm"),
        ("--scale=smok", "smoke"),
        ("--sweep=nowhere.py", "nowhere.py"),
        ("--sweep=experiments/mlm.py", "sweep(scale)"),
        ("--parallel=0", "--parallel"),
        ("--config.train.stepz=1", "train.steps"),
    ],
)
def test_a_mistake_is_one_line(file, tmp_path, engine, capsys, flag, said):
    assert _sweep(file, tmp_path, flag) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
