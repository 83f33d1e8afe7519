"""Two processes train one run: stopped, killed, and finished by a single process."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from research.contract.errors import UserError
from research.distributed import processes
from research.record.metric_writer import read_metrics
from tests.testing.compile_flags import FASTEST_COMPILE

SCRIPT = """
import json, signal, sys
from pathlib import Path
from tests.proofs.chaos.run_process import Run

folder = Path(sys.argv[1])
flags = [f"--config.data.cache_dir={folder / 'cache'}", *sys.argv[2:]]
alone = Run(folder / "alone", flags, devices=1)
alone_codes = alone.start().wait()
two = Run(folder / "two", flags, processes=2, devices=2)

life = two.start()
life.wait_until(two.last_step)
life.kill(1, signal.SIGTERM)
asked = life.wait()
saved = two.last_checkpoint()

life = two.start()
life.wait_until(lambda: two.last_step() > max(saved, 10))
seconds = life.kill(0, signal.SIGKILL)
killed = life.wait()

one = two._replace(processes=1, flags=[*flags, "--config.mesh.fsdp=2"])
ended = one.start().wait()
facts = dict(asked=asked, saved=saved, killed=killed, seconds=seconds, ended=ended)
print(json.dumps(facts | {"alone": alone_codes}))
"""
SMALL = {
    "data.vocabulary_size": 384,
    "data.length": 32,
    "data.held_out": 0.1,
    "model.layers": 1,
    "model.width": 32,
    "model.heads": 2,
    "model.feedforward": 64,
    "optimizer.warmup_steps": 2,
    "optimizer.learning_rate": 0.01,
    "train.batch": 16,
    "train.steps": 40,
    "train.log_every": 2,
    "train.eval_every": 10,
    "train.best_metric": "loss",
    "optimizer.ema_decay": 0.5,
    "train.checkpoint_every": 0,
}
WORDS = ("the", "a", "old", "small", "river", "stone", "reads", "sees", "and", "by")
EXIT_TIMEOUT_S = 5.0


def corpus(folder: Path) -> dict[str, str]:
    """Writes a small corpus; returns the config keys of a small run on it."""
    draw = np.random.default_rng(0)
    documents = (
        ". ".join(" ".join(draw.choice(WORDS, 8)) for _ in range(6)) + "."
        for _ in range(300)
    )
    (folder / "text.txt").write_text("\n\n".join(documents))
    return {"data.corpus": str(folder / "text.txt"), **SMALL}


@pytest.fixture(scope="module")
def run_facts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    keys = [f"--config.{key}={value}" for key, value in corpus(folder).items()]
    arguments = [str(folder), "--config=experiments/mlm.py", *keys]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "XLA_FLAGS": FASTEST_COMPILE},
    )
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)


def log(folder: Path, index: int) -> str:
    return (folder / "two" / f"log{index}.txt").read_text()


@pytest.mark.long  # `make chaos` kills one of two processes
def test_on_sigterm_both_save_the_same_step_and_exit_with_75(run_facts):
    folder, facts = run_facts
    assert facts["alone"] == [0] and facts["asked"] == [75, 75]
    assert 2 <= facts["saved"] < 40
    line = f"stopped after step {facts['saved']}, which is saved"
    assert log(folder, 0).count(line) == 1 and line not in log(folder, 1)
    assert f"goes on from step {facts['saved']}" in log(folder, 0)


@pytest.mark.long
def test_when_one_is_killed_the_other_exits_at_once_and_names_it(run_facts):
    folder, facts = run_facts
    assert facts["killed"] == [-9, 75]
    assert facts["seconds"] < EXIT_TIMEOUT_S
    line = f"error: process 0 on {socket.gethostname()} was killed"
    assert log(folder, 1).count(line) == 1
    assert "Traceback" not in log(folder, 0) + log(folder, 1)


@pytest.mark.long
def test_the_losses_equal_those_of_one_process(run_facts):
    folder, facts = run_facts
    assert facts["ended"] == [0]
    alone, two = (read_metrics(folder / name) for name in ("alone", "two"))
    assert [line.keys() for line in alone] == [line.keys() for line in two]
    for name in ("train/loss", "valid/loss", "train/gradient_norm"):
        losses = [[x[name] for x in run if name in x] for run in (alone, two)]
        assert len(losses[0]) == (5 if name == "valid/loss" else 20)
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)


@pytest.mark.long
def test_only_process_0_writes_and_prints(run_facts):
    folder, _ = run_facts
    assert "parameters" in log(folder, 0) and "parameters" not in log(folder, 1)
    assert len(list((folder / "cache" / "vocabulary").glob("*.lock"))) == 1
    facts = json.loads((folder / "two" / "provenance.json").read_text())
    assert facts["processes"] == 1 and facts["devices"] == 2


def test_a_process_that_differs_is_named(monkeypatch):
    digests = {}

    def allgather(own):
        digests.setdefault("first", own)
        return np.stack([digests["first"], own, digests["first"]])

    monkeypatch.setattr(jax, "process_count", lambda: 3)
    monkeypatch.setattr(processes.multihost_utils, "process_allgather", allgather)
    processes.assert_equal_across_hosts(config="a", data="b")
    processes.assert_equal_across_hosts(config="a", data="b")
    with pytest.raises(UserError, match=r"process 1 has another data than process 0 "):
        processes.assert_equal_across_hosts(config="a", data="c")
