"""Chaos: a run that is killed five times loses nothing, and a loss would be seen."""

import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

from launch.config import load
from research.checkpoints.checkpoint import Checkpoints
from research.run import setup
from research.step import State
from tests.distributed.test_multiprocess import FAST_COMPILE, corpus
from tests.proofs import fault_injection


def test_five_kills_lose_nothing(tmp_path):
    keys = corpus(tmp_path) | {
        "model.dropout": 0.1,
        "train.steps": 90,
        "train.log_every": 6,
        "train.checkpoint_every": 8,
    }
    done = subprocess.run(
        [
            *[
                sys.executable,
                "-m",
                "tests.proofs.fault_injection",
                "--kills=5",
                "--fork",
            ],
            f"--workdir={tmp_path / 'runs'}",
            *[f"--config.{key}={value}" for key, value in keys.items()],
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": FAST_COMPILE},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("killed 5 times")
    assert second == (
        "parameters, optimizer state and metrics.jsonl bit-equal in all runs"
    )


@pytest.fixture
def runs(tmp_path):
    """Two runs that ended alike."""
    for name in ("alone", "killed"):
        finish(tmp_path / name, 1.0, 0.5)
    return tmp_path / "alone", tmp_path / "killed"


def finish(workdir, parameter, loss):
    array = jnp.full(3, parameter)
    checkpoints = Checkpoints(workdir, keep=1)
    state = State(jnp.int32(5), {"w": array}, (array,), (), {})
    checkpoints.save(5, state, {})
    checkpoints.close()
    line = json.dumps({"step": 5, "train/loss": loss})
    (workdir / "metrics.jsonl").write_text(line + "\n")


def test_what_differs_is_named(runs, tmp_path):
    alone, killed = runs
    assert fault_injection.differences(alone, killed) == []
    finish(tmp_path / "other", 1.0 + 2**-23, 0.5)
    wrong = fault_injection.differences(alone, tmp_path / "other")
    assert [line.split(": ")[1].split()[0] for line in sorted(wrong)] == [
        "params/w",
        "rest/opt_state/0",
    ]
    finish(tmp_path / "more", 1.0, 0.25)
    (line,) = fault_injection.differences(alone, tmp_path / "more")
    assert "metrics.jsonl differs" in line


def test_the_run_of_make_chaos_finds_its_text(tmp_path):
    config = load(
        "experiments/mlm.py", fault_injection.SMALL | {"data.cache_dir": str(tmp_path)}
    )
    assert (
        setup.build_program(config, jax.devices()[:1]).data.counts["train/examples"] > 0
    )
