"""The loop on a small corpus: resumed equals uninterrupted, and mistakes are named."""

import contextlib
import json
import random

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from launch.config import load
from research import train as loop
from research.checkpoints.checkpoint import finished
from research.distributed.failure_detector import Peers
from research.errors import PreemptedError, UserError
from research.run.setup import build

WORDS = ("the", "a", "old", "small", "river", "stone", "reads", "sees", "and", "by")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus of a few hundred sentences, and the cache beside it."""
    folder = tmp_path_factory.mktemp("data")
    draw = random.Random(0)
    documents = [
        ". ".join(" ".join(draw.choices(WORDS, k=8)) for _ in range(6)) + "."
        for _ in range(300)
    ]
    (folder / "corpus").mkdir()
    (folder / "corpus" / "text.txt").write_text("\n\n".join(documents))
    return folder


def tiny(folder, objective="mlm", **overrides):
    small = {
        "data.corpus": str(folder / "corpus"),
        "data.cache_dir": str(folder / "cache"),
        "data.held_out": 0.1,
        "data.vocabulary": "unigram",
        "data.vocabulary_size": 384,
        "data.length": 32,
        "model.layers": 1,
        "model.width": 32,
        "model.heads": 2,
        "model.feedforward": 64,
        "model.dropout": 0.0,
        "optimizer.warmup_steps": 2,
        "optimizer.learning_rate": 0.01,
        "train.steps": 12,
        "train.batch": 16,
        "train.log_every": 3,
        "train.eval_every": 6,
        "train.checkpoint_every": 5,
    }
    return load(f"experiments/{objective}.py", small | overrides)


def train(config, workdir, devices=1):
    return loop.train(config, workdir, devices=jax.devices()[:devices])


def lines(workdir):
    return [json.loads(line) for line in (workdir / "metrics.jsonl").open()]


def last_params(workdir):
    folder = workdir / "checkpoints"
    path = folder / str(next(finished(folder))) / "params"
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
        return jax.tree.map(np.asarray, checkpointer.restore(path))


@pytest.fixture(scope="module")
def whole(folder, tmp_path_factory):
    """A run that was left alone."""
    workdir = tmp_path_factory.mktemp("whole")
    return workdir, train(tiny(folder), workdir)


def test_the_loss_falls_and_everything_is_written(whole):
    workdir, result = whole
    losses = [x["train/loss"] for x in lines(workdir) if "train/loss" in x]
    assert len(losses) == 4 and losses[-1] < losses[0]
    assert [x["step"] for x in lines(workdir)] == [3, 6, 6, 9, 12, 12]
    assert result == json.loads((workdir / "result.json").read_text())
    assert result["tokens_seen"] == 12 * 16 * 32
    assert 0 < result["tokens_scored"] <= 12 * 16 * 5
    assert result["flops_per_token"] > 0 and result["parameters"] > 0
    assert {"config.json", "provenance.json", "speed.jsonl", "tensorboard"} <= {
        path.name for path in workdir.iterdir()
    }
    assert sorted(p.name for p in (workdir / "checkpoints").iterdir()) == ["10", "12"]


def test_a_finished_run_is_not_run_again(whole, folder):
    workdir, result = whole
    before = (workdir / "metrics.jsonl").read_text()
    assert train(tiny(folder), workdir) == result
    assert (workdir / "metrics.jsonl").read_text() == before


class KilledError(Exception):
    """Stands for a kill."""


def test_resumed_equals_uninterrupted(whole, folder, tmp_path, monkeypatch):
    step = loop.Loop._log

    def dies(self, number, *rest, **more):
        if number == 9:
            raise KilledError
        step(self, number, *rest, **more)

    monkeypatch.setattr(loop.Loop, "_log", dies)
    with pytest.raises(KilledError):
        train(tiny(folder), tmp_path)
    assert not (tmp_path / "result.json").exists()
    monkeypatch.setattr(loop.Loop, "_log", step)
    result = train(tiny(folder), tmp_path)
    jax.tree.map(np.testing.assert_array_equal, *map(last_params, (whole[0], tmp_path)))
    assert lines(tmp_path) == lines(whole[0])
    assert result["metrics"] == whole[1]["metrics"]


class Stopped(Peers):
    """Asks for a stop when it is asked for the nth time."""

    def __init__(self, nth):
        super().__init__()
        self.left = nth

    def stops(self):
        self.left -= 1
        return self.left == 0


def test_it_goes_on_with_other_devices_and_meshes(whole, folder, tmp_path):
    """8, then 4, then 2 devices: the same text, and the losses of one device.

    The second is stopped in the middle of an evaluation, which the third does again.
    """
    ways = (8, "data", 5, 4), (4, "fsdp", 5, 6), (2, "tensor", 0, 12)
    for count, axis, nth, step in ways:
        config = tiny(folder, **{"mesh.data": 1, f"mesh.{axis}": count})
        devices, peers = jax.devices()[:count], Stopped(nth)
        with contextlib.ExitStack() as stack:
            if nth:
                words = f"stopped after step {step}, which is saved"
                stack.enter_context(pytest.raises(PreemptedError, match=words))
            loop.train(config, tmp_path, devices=devices, peers=peers)
        assert next(finished(tmp_path / "checkpoints")) == step
    expected, found = lines(whole[0]), lines(tmp_path)
    assert [line.keys() for line in found] == [line.keys() for line in expected]
    for one, other in zip(expected, found, strict=True):
        assert other == pytest.approx(one, rel=1e-5)


def test_metrics_are_read_one_step_late(folder, tmp_path, monkeypatch):
    order = []
    log, steps = loop.Loop._log, loop.compile_step

    def compiled(program):
        step, cost = steps(program)

        def told(state, batch):
            order.append("step")
            return step(state, batch)

        return told, cost

    def reads(self, number, *rest, **more):
        order.append(f"read {number}")
        log(self, number, *rest, **more)

    monkeypatch.setattr(loop, "compile_step", compiled)
    monkeypatch.setattr(loop.Loop, "_log", reads)
    late = {"train.steps": 4, "train.log_every": 1, "train.eval_every": 0}
    train(tiny(folder, **late), tmp_path)
    late = [event for n in (1, 2, 3) for event in ("step", f"read {n}")]
    assert order == ["step", *late, "read 4"]


def test_a_loss_that_is_no_number_stops_the_run(folder, tmp_path):
    wild = {"optimizer.learning_rate": 1e30, "optimizer.clip_norm": 0.0}
    with pytest.raises(loop.NonFiniteLossError, match=r"train/loss is .* by step"):
        train(tiny(folder, **wild, **{"train.checkpoint_every": 0}), tmp_path)
    assert not (tmp_path / "result.json").exists()


def test_fine_tuning_starts_from_the_other_run(whole, folder, tmp_path, capsys):
    start = {"train.init_from": str(whole[0]), "data.vocabulary": str(whole[0])}
    start["train.steps"] = 3
    config = tiny(folder, **start, **{"optimizer.learning_rate": 0.0})
    train(config, tmp_path)
    jax.tree.map(np.testing.assert_array_equal, *map(last_params, (whole[0], tmp_path)))
    assert "starts from the parameters of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.width": 64}, "model.width is 32 there and 64 now"),
        ({"train.steps": 13}, "train.steps is 12 there and 13 now"),
    ],
)
def test_a_workdir_belongs_to_one_config(whole, folder, changes, words):
    with pytest.raises(UserError, match=words):
        train(tiny(folder, **changes), whole[0])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train.init_from": "/nowhere"}, "train.init_from=/nowhere: no checkpoint"),
        ({"model.width": 64}, r"train.init_from=.*shape \(.*32.*\) there and"),
        ({"data.vocabulary_size": 380}, "data.vocabulary to that run's workdir"),
        ({"train.init_scope": "generator"}, "train.init_scope='generator'.*no such"),
        ({"mesh.data": 3}, "mesh.data=3"),
        ({"train.batch": 12, "train.accumulate": 8}, "train.batch=12"),
        ({"data.eval_split": "validd"}, "data.eval_split.*valid"),
        ({"data.corpus": "/nowhere"}, "data.corpus"),
        ({"data.vocabulary": "/nowhere.model"}, "data.vocabulary"),
        ({"train.steps": 0}, "train.steps is at least 1, not 0"),
    ],
)
def test_mistakes_are_named(whole, folder, tmp_path, changes, words):
    changes = {"train.init_from": str(whole[0])} | changes
    with pytest.raises(UserError, match=words):
        train(tiny(folder, **changes), tmp_path / "run")


@pytest.mark.parametrize("objective", ["lm", "mlm", "plm", "dae", "electra"])
def test_mesh_and_accumulation_change_nothing(folder, tmp_path, objective):
    """The same losses on one data axis, on three axes, and in two micro-batches."""
    short = {"train.steps": 4, "train.log_every": 1, "train.eval_every": 0}
    ways = {
        "whole": {},
        "split": {"mesh.data": 2, "mesh.fsdp": 2, "mesh.tensor": 2},
        "accumulated": {"train.accumulate": 2},
    }
    losses = {}
    for name, way in ways.items():
        devices = 8 if name == "split" else 1
        train(tiny(folder, objective, **short, **way), tmp_path / name, devices)
        losses[name] = [
            x["train/loss"] for x in lines(tmp_path / name) if "train/loss" in x
        ]
    for name in ("split", "accumulated"):
        np.testing.assert_allclose(losses[name], losses["whole"], rtol=1e-5)


def test_evaluation_has_one_batch_under_way(folder, tmp_path, monkeypatch):
    """Many batches on eight devices: the same losses, and never two at a time.

    Two would be safe on an accelerator, but their collectives starve each other where
    the devices are threads of one CPU.
    """
    many = {"data.held_out": 0.4, "train.batch": 8, "train.steps": 3}
    split = {"mesh.data": 2, "mesh.fsdp": 2, "mesh.tensor": 2}
    calls = []

    def watched(config, devices):
        program = build(config, devices)

        def evaluate(params, carry, sums, batch):
            calls.append(all(leaf.is_ready() for leaf in jax.tree.leaves(sums)))
            return program.evaluate(params, carry, sums, batch)

        return program._replace(evaluate=evaluate)

    one = train(tiny(folder, "lm", **many, **{"data.stride": 8}), tmp_path / "one")
    monkeypatch.setattr(loop, "build", watched)
    config = tiny(folder, "lm", **many, **split, **{"data.stride": 8})
    eight = train(config, tmp_path / "eight", devices=8)
    assert len(calls) > 50 and all(calls)
    losses = [result["metrics"]["valid/loss"] for result in (one, eight)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
