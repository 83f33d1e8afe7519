"""Fixtures: a sweep file, a finished sweep, and a backend that runs nothing."""

import pytest

from launch.config import load_config
from launch.sweeps import sweep_plan
from tests.testing import fake_backend, tiny_runs

SWEEP = """
def sweep(scale):
    first = ("experiments/mlm.py", {"train.steps": 3})
    for seed in range(2):
        yield "experiments/lm.py", {"train.init_from": first, "seed": seed}
    yield "experiments/lm.py", {"train.steps": 7}
"""

TINY = {
    "data.length": 16,
    "data.vocabulary_size": 288,
    "data.sentinels": 4,
    "model.width": 16,
    "model.feedforward": 32,
    "train.steps": 6,
    "train.batch": 8,
}


@pytest.fixture(scope="session")
def trained_sweep(tmp_path_factory):
    """A folder with a finished sweep of two tiny trials in `sweep`: mlm and lm."""
    folder = tiny_runs.write_corpus(tmp_path_factory.mktemp("trained"))
    keys = tiny_runs.tiny_settings(folder) | TINY
    file, workdir = folder / "sweep.py", folder / "sweep"
    file.write_text(
        f"KEYS = {keys!r}\n"
        "def sweep(scale):\n"
        "    return [(f'experiments/{name}.py', KEYS) for name in ('mlm', 'lm')]\n"
    )
    workdir.mkdir()
    trials = sweep_plan.make_plan(str(file), workdir, scale="smoke", shared={})
    sweep_plan.write_plan(trials, workdir)
    for trial in trials:
        config = load_config(trial.experiment, trial.overrides)
        tiny_runs.train(config, str(trial.folder))
    return folder


@pytest.fixture
def sweep_file(tmp_path):
    """A parent, its two children, and a trial without a parent."""
    path = tmp_path / "sweep.py"
    path.write_text(SWEEP)
    return str(path)


@pytest.fixture
def backend(monkeypatch):
    """`--on=fake`: the folders of what it starts, and the exit codes it gives."""
    return fake_backend.install(monkeypatch)
