"""The command `palimpsest compile` prints one JSON object."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[3]
SMALL = {
    "data.vocabulary_size": 512,
    "data.length": 32,
    "model.layers": 3,
    "model.width": 64,
    "model.heads": 4,
    "model.feedforward": 128,
    "model.scan_unroll": 1,
    "train.batch": 16,
}


def test_the_command_prints_one_object():
    flags = ["--config=experiments/lm.py", "--topology=cpu:2"]
    flags += [f"--config.{key}={value}" for key, value in SMALL.items()]
    done = subprocess.run(
        [sys.executable, "-m", "launch.commands.compile", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["topology"] == "cpu:2" and facts["num_devices"] == 2
    assert facts["fits"] and np.isfinite(facts["compile_seconds"])
