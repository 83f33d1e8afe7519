"""Fault injection: three kills change nothing, and a difference would be reported."""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from launch.config import load_config
from research.checkpoints.checkpoint import Checkpoints
from research.run import setup
from research.step import State
from tests.distributed.test_multiprocess import FAST_COMPILE, corpus
from tests.proofs import fault_injection


def test_a_run_killed_three_times_equals_an_uninterrupted_one(tmp_path):
    keys = corpus(tmp_path) | {
        "model.dropout": 0.1,
        "train.steps": 90,
        "train.log_every": 6,
        "train.checkpoint_every": 8,
    }
    done = subprocess.run(
        [
            *[sys.executable, "-m", "tests.proofs.fault_injection"],
            *["--kills=3", "--fork"],
            f"--workdir={tmp_path / 'runs'}",
            *[f"--config.{key}={value}" for key, value in keys.items()],
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": FAST_COMPILE},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("killed 3 times")
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
    assert fault_injection.differences(reference, killed) == []
    write_run(tmp_path / "other", 1.0 + 2**-23, 0.5)
    lines = fault_injection.differences(reference, tmp_path / "other")
    assert [line.split(": ")[1].split()[0] for line in sorted(lines)] == [
        "params/w",
        "rest/opt_state/0",
    ]
    write_run(tmp_path / "more", 1.0, 0.25)
    (line,) = fault_injection.differences(reference, tmp_path / "more")
    assert "metrics.jsonl differs" in line


def test_the_run_of_make_chaos_has_training_text(tmp_path):
    config = load_config(
        "experiments/mlm.py", fault_injection.SMALL | {"data.cache_dir": str(tmp_path)}
    )
    assert (
        setup.build_program(config, jax.devices()[:1]).data.counts["train/examples"] > 0
    )
