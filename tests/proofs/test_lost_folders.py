"""A second writer is refused, and a run without a folder for checkpoints ends."""

import os
import subprocess
import sys

from tests.distributed.test_multiprocess import FAST_COMPILE, corpus


def test_both_end_with_one_line_within_seconds(tmp_path):
    done = subprocess.run(
        [
            *[sys.executable, "-m", "tests.proofs.lost_folders", "--times=1"],
            f"--workdir={tmp_path / 'runs'}",
            *[f"--config.{key}={value}" for key, value in corpus(tmp_path).items()],
            *["--config.train.steps=100000", "--config.train.checkpoint_every=8"],
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": FAST_COMPILE},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "second writer: 1 of 1" in done.stdout
    assert "unwritable folder: 1 of 1" in done.stdout
    log = (tmp_path / "runs/0/log0.txt").read_text()
    assert "another run writes" in log and "could not be saved" in log
    assert "Traceback" not in log
