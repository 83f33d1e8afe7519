"""Fault injection: two kills change nothing, and a difference would be reported."""

import json
import os
import subprocess
import sys

import jax.numpy as jnp
import pytest

from research.checkpoints.checkpoint import Checkpoints
from research.contract.state import State
from tests.distributed.test_multiprocess import FAST_COMPILE, corpus
from tests.proofs import compare_runs, fault_injection
from tests.proofs.run_process import ProcessGroup, Run


def test_a_run_killed_twice_equals_an_uninterrupted_one(tmp_path):
    keys = corpus(tmp_path) | {
        "model.dropout": 0.1,
        "train.steps": 66,
        "train.log_every": 6,
        "train.checkpoint_every": 8,
    }
    done = subprocess.run(
        [
            *[sys.executable, "-m", "tests.proofs.fault_injection"],
            *["--kills=2", "--fork"],
            f"--workdir={tmp_path / 'runs'}",
            *[f"--config.{key}={value}" for key, value in keys.items()],
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": FAST_COMPILE},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("killed 2 times")
    assert second == (
        "parameters, optimizer state and metrics.jsonl bit-equal in all runs"
    )


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
    checkpoints.save(5, state, {})
    checkpoints.close()
    line = json.dumps({"step": 5, "train/loss": loss})
    (workdir / "metrics.jsonl").write_text(line + "\n")


def test_differences_are_named(runs, tmp_path):
    reference, killed = runs
    assert compare_runs.differences(reference, killed) == []
    write_run(tmp_path / "other", 1.0 + 2**-23, 0.5)
    lines = compare_runs.differences(reference, tmp_path / "other")
    assert [line.split(": ")[1].split()[0] for line in sorted(lines)] == [
        "params/w",
        "rest/opt_state/0",
    ]
    write_run(tmp_path / "more", 1.0, 0.25)
    (line,) = compare_runs.differences(reference, tmp_path / "more")
    assert "metrics.jsonl differs" in line


def test_the_moment_of_a_kill_is_seen_from_outside(tmp_path):
    run = Run(tmp_path / "run", [], cache_dir=tmp_path / "cache")
    group = ProcessGroup(run, [])
    folder, metrics = tmp_path / "cache/index/0", run.workdir / "metrics.jsonl"
    folder.mkdir(parents=True)
    (run.workdir / "checkpoints").mkdir(parents=True)

    def moments():
        return {
            name for name, is_now in fault_injection.MOMENTS.items() if is_now(group)
        }

    assert moments() == {"index"}
    (folder / "checksums.json").touch()
    assert moments() == set()
    for step, expected in ((59, set()), (60, {"evaluating"})):
        metrics.write_text(json.dumps({"step": step, "train/loss": 1.0}) + "\n")
        assert moments() == expected
    os.utime(metrics, (0, 0))  # of an earlier start
    assert moments() == set()
    with metrics.open("a") as file:
        file.write(json.dumps({"step": 60, "valid/loss": 1.0}) + "\n")
    assert moments() == set()
