"""Chaos would report a difference, and sees the moments at which it kills."""

import json
import os

import jax.numpy as jnp
import pytest

from research.checkpoints.checkpoint import Checkpoints
from research.contract.state import State
from tests.proofs.chaos.killed_runs import differences
from tests.proofs.chaos.run_process import Run


@pytest.fixture
def runs(tmp_path):
    """The folders of two runs with equal results."""
    for name in ("reference", "killed"):
        write_run(tmp_path / name, 1.0, 0.5)
    return tmp_path / "reference", tmp_path / "killed"


def write_run(workdir, parameter, loss):
    array = jnp.full(3, parameter)
    checkpoints = Checkpoints(workdir, keep=1)
    state = State(jnp.int32(5), {"w": array}, (array,), (), {})
    checkpoints.save(5, state, {"step": 5})
    checkpoints.close()
    line = json.dumps({"step": 5, "train/loss": loss})
    (workdir / "metrics.jsonl").write_text(line + "\n")


def test_differences_are_named(runs, tmp_path):
    reference, killed = runs
    assert differences(reference, killed) == []
    write_run(tmp_path / "other", 1.0 + 2**-23, 0.5)
    lines = differences(reference, tmp_path / "other")
    names = ["params/w", "rest/opt_state/0"]
    assert [line.split(": ")[1].split()[0] for line in lines] == names
    write_run(tmp_path / "more", 1.0, 0.25)
    (line,) = differences(reference, tmp_path / "more")
    assert "metrics.jsonl differs" in line


def test_the_moment_of_a_kill_is_seen_from_outside(tmp_path):
    run = Run(tmp_path / "run", [], cache_dir=tmp_path / "cache")
    folder, metrics = tmp_path / "cache/index/0", run.workdir / "metrics.jsonl"
    folder.mkdir(parents=True)
    (run.workdir / "checkpoints").mkdir(parents=True)
    assert run.is_caching() and not run.is_saving()
    (folder / "checksums.json").touch()
    (run.workdir / "checkpoints/7.orbax-checkpoint-tmp").mkdir()
    assert run.is_saving() and not run.is_caching()
    for step, is_due in ((59, False), (60, True)):
        metrics.write_text(json.dumps({"step": step, "train/loss": 1.0}) + "\n")
        assert run.is_evaluating(60, since=0) == is_due
    os.utime(metrics, (0, 0))  # of an earlier start
    assert not run.is_evaluating(60, since=1)
    with metrics.open("a") as file:
        file.write(json.dumps({"step": 60, "valid/loss": 1.0}) + "\n")
    assert not run.is_evaluating(60, since=0)
