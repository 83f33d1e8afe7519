"""The examples of docs/examples train where a user would copy them to."""

import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from launch.config import load_config
from research import networks, objectives
from research.config.config import Config
from research.distributed import sharding
from research.program.setup import build_program, train_batches
from tests.testing.tiny_runs import save_untrained, tiny_config, write_corpus

FOLDER = Path(__file__).parents[1] / "docs" / "examples"
SIZES = ("layers", "width", "heads", "feedforward")
PARTS = (objectives, networks)
NAMES = [path.stem for path in sorted((FOLDER / "experiments").glob("*.py"))]


@pytest.fixture
def copied():
    """Objectives and networks of the examples are found as if they were copied."""
    for package in PARTS:
        package.__path__.append(str(FOLDER / package.__name__.split(".")[-1]))
    yield
    for package in PARTS:
        package.__path__.pop()
        for name in NAMES:
            sys.modules.pop(f"{package.__name__}.{name}", None)


def test_each_part_has_an_experiment():
    found = [*FOLDER.glob("objectives/*.py"), *FOLDER.glob("networks/*.py")]
    assert {path.stem for path in found} == {*NAMES}


@pytest.mark.parametrize(
    "name",  # tests/program/test_constants.py trains distilled
    [pytest.param(n, marks=[pytest.mark.long] * (n == "distilled")) for n in NAMES],
)
def test_it_learns(name, copied, tmp_path, monkeypatch):
    folder = write_corpus(tmp_path)
    keys = {}
    if (FOLDER / "networks" / f"{name}.py").exists():
        keys["model.heads"] = None  # which a network need not have
    config = tiny_config(folder, f"../docs/examples/experiments/{name}", **keys)
    small = load_config("experiments/lm.py", {})
    teacher = {f"model.{key}": small.values["model"][key] for key in SIZES}
    save_untrained(tmp_path / "runs" / "lm", tiny_config(folder, "lm", **teacher))
    monkeypatch.chdir(tmp_path)  # where an example that reads a run finds it
    program = build_program(Config.of(config), jax.devices()[:1])
    losses = []
    with sharding.context(program.mesh):
        state = program.init(program.key_data())
        for batch in train_batches(program, 0, config.train.steps):
            state = program.step(state, batch, program.key_data())
            total, weight, _ = jax.device_get(state.sums[config.objective.name])
            losses.append(total / weight)
    assert np.isfinite(losses).all() and losses[-1] < losses[0] - 0.5
