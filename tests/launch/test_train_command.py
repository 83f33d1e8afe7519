"""`launch.train` ends with one line and its exit code."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.testing.compile_flags import FASTEST_COMPILE

COMMAND = [sys.executable, "-m", "launch.train", "--config=experiments/mlm.py"]
SMALL = {
    "data.held_out": 0.1,
    "data.vocabulary": "bytebpe",
    "data.vocabulary_size": 384,
    "data.length": 32,
    "model.layers": 1,
    "model.width": 32,
    "model.heads": 2,
    "model.feedforward": 64,
    "optimizer.warmup_steps": 2,
    "train.steps": 240,
    "train.batch": 16,
    "train.log_every": 20,
    "train.eval_every": 120,
    "train.checkpoint_every": 20,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    draw = random.Random(1)
    words = ["".join(draw.choices("abcdefgh", k=4)) for _ in range(99)]
    texts = [" ".join(draw.choices(words, k=60)) + "." for _ in range(200)]
    (folder / "text.txt").write_text("\n\n".join(texts))
    return folder


def start(corpus, workdir, **changes):
    """Starts `launch.train` in its own process, on one device."""
    keys = SMALL | {"data.corpus": corpus, "data.cache_dir": corpus / "cache"} | changes
    flags = [f"--config.{key}={value}" for key, value in keys.items()]
    environment = os.environ | {"XLA_FLAGS": FASTEST_COMPILE}
    return subprocess.Popen(
        [*COMMAND, f"--workdir={workdir}", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def finish(process) -> tuple[int, str]:
    error = process.communicate(timeout=300)[1]
    return process.returncode, error


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.layer": 2}, "model.layers"),
        ({"mesh.tensor": 2}, "mesh.tensor=2"),
    ],
)
def test_a_user_error_is_one_line_and_exit_code_2(corpus, tmp_path, changes, message):
    code, error = finish(start(corpus, tmp_path / "run", **changes))
    assert code == 2
    assert error.startswith("error: ") and message in error
    assert len(error.splitlines()) == 1


def test_a_loss_that_is_not_finite_exits_with_3(corpus, tmp_path):
    diverging = {"optimizer.learning_rate": 1e30, "optimizer.clip_norm": 0.0}
    code, error = finish(start(corpus, tmp_path / "run", **diverging))
    assert code == 3 and "train/loss is" in error.splitlines()[-1]


def test_a_run_that_learnt_no_more_than_frequencies_says_so(corpus, tmp_path):
    few = {"train.steps": 3, "train.eval_every": 0, "train.checkpoint_every": 0}
    few["train.batch"] = 1024  # of fewer tokens no one expects it
    code, error = finish(start(corpus, tmp_path / "run", **few))
    assert code == 0
    assert "\nwarning: the loss of mlm is not 5 % below" in error


def handles(process, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = int(status.split("SigCgt:")[1].split()[0], 16)
    return bool(caught >> (number - 1) & 1)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize(
    ("number", "delay", "times", "code"),
    [
        (signal.SIGTERM, 0.0, 1, 75),
        (signal.SIGTERM, 0.4, 1, 75),
        (signal.SIGINT, 0.2, 1, 130),
        (signal.SIGINT, 0.7, 3, 130),
        (signal.SIGINT, 1.5, 3, 130),
    ],
)
def test_a_signal_while_a_command_starts_is_one_line(
    corpus, tmp_path, number, delay, times, code
):
    # A shell's background job ignores Ctrl-C, and so do the processes that it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = start(corpus, tmp_path / "run")
    while not handles(process, signal.SIGTERM):
        assert process.poll() is None
        time.sleep(0.005)
    time.sleep(delay)
    for _ in range(times):
        process.send_signal(number)
        time.sleep(0.01)
    found, error = finish(process)
    assert found == code and "Traceback" not in error
    word = "SIGTERM" if number == signal.SIGTERM else "interrupted"
    *before, last = error.splitlines()
    assert word in last and word not in "".join(before)
    assert delay or not before  # else a fast machine has begun with the vocabulary
