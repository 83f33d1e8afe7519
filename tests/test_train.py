"""The train loop on a small corpus: a resumed run equals an uninterrupted one."""

import contextlib
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath

from research import train as loop
from research.checkpoints.checkpoint import finished_steps
from research.config.config import Config
from research.contract.errors import PreemptedError, UserError
from research.optimize import optimizer
from research.optimize.schedule import logged_rates
from research.program import compiled_phases
from research.program.setup import build_program
from research.record import claim_file
from research.record.metric_writer import read_metrics, read_speed
from research.record.workdir import read_result
from tests.testing import fake_bucket, tiny_runs
from tests.testing.optimizer_section import section
from tests.testing.tiny_runs import StoppingPeers, last_params, tiny_config, train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_runs.write_corpus(tmp_path_factory.mktemp("data"))


TRACED = {"train.profile_steps": [5, 6]}
"""Other runs have no trace, and are the same."""


@pytest.fixture(scope="module")
def uninterrupted(folder, tmp_path_factory):
    """The workdir and the result of a run that is not stopped."""
    workdir = tmp_path_factory.mktemp("uninterrupted")
    return workdir, train(tiny_config(folder, **TRACED), workdir)


def test_the_loss_falls_and_everything_is_written(uninterrupted):
    workdir, result = uninterrupted
    losses = [x["train/loss"] for x in read_metrics(workdir) if "train/loss" in x]
    assert len(losses) == 4 and losses[-1] < losses[0]
    assert [x["step"] for x in read_metrics(workdir)] == [3, 6, 6, 9, 12, 12]
    rates = [x["learning_rate"] for x in read_metrics(workdir) if "train/loss" in x]
    peak_fraction = [1.0, 0.7, 0.4, 0.1]  # of steps 3, 6, 9 and 12; 2 are warm-up
    assert rates == pytest.approx([0.01 * each for each in peak_fraction])
    assert result == read_result(workdir)
    assert result["tokens_seen"] == 12 * 16 * 32
    assert 0 < result["tokens_scored"] <= 12 * 16 * 5
    assert result["flops_per_token"] > 0 and result["parameters"] > 0
    assert {"config.json", "provenance.json", "speed.jsonl", "tensorboard"} <= {
        path.name for path in workdir.iterdir()
    }
    assert sorted(p.name for p in (workdir / "checkpoints").iterdir()) == ["10", "12"]


def test_the_steps_that_are_asked_for_are_traced(uninterrupted):
    workdir, _ = uninterrupted
    (trace,) = (workdir / "tensorboard").glob("plugins/profile/*/*.xplane.pb")
    content = trace.read_bytes()
    assert b"step_num" in content and b"train" in content


@pytest.mark.parametrize("steps", [[3], [0, 2], [3, 2], [12, 13], ["a", 2]])
def test_steps_to_trace_that_are_none_are_refused(folder, steps):
    with pytest.raises(UserError, match=r"profile_steps must be \[first, last\], two"):
        tiny_config(folder, **{"train.profile_steps": steps})


def test_a_finished_run_does_not_train_again(uninterrupted, folder):
    workdir, result = uninterrupted
    before = (workdir / "metrics.jsonl").read_text()
    assert train(tiny_config(folder), workdir) == result
    assert (workdir / "metrics.jsonl").read_text() == before


class KilledError(Exception):
    """Simulates a kill."""


def train_until_killed(config, workdir, monkeypatch):
    """A run that is killed where it would log step 9."""
    log = loop.Loop._log

    def log_or_die(self, step, *args, **kwargs):
        if step == 9:
            raise KilledError
        log(self, step, *args, **kwargs)

    monkeypatch.setattr(loop.Loop, "_log", log_or_die)
    with pytest.raises(KilledError):
        train(Config.of(config), workdir)
    assert not (workdir / "result.json").exists()
    monkeypatch.setattr(loop.Loop, "_log", log)


@pytest.fixture(params=["disk", pytest.param("bucket", marks=pytest.mark.long)])
def workdir(request, tmp_path, monkeypatch):
    if request.param == "disk":
        return epath.Path(tmp_path)
    fake_bucket.install(monkeypatch, tmp_path)
    monkeypatch.setattr(claim_file, "SETTLE_S", 0.0)
    return epath.Path("gs://bucket/run")


def test_resumed_equals_uninterrupted(uninterrupted, folder, workdir, monkeypatch):
    train_until_killed(tiny_config(folder), workdir, monkeypatch)
    (workdir / "config.json").rename(workdir / "lost")
    with pytest.raises(UserError, match="checkpoint of another config"):
        train(tiny_config(folder, seed=5), workdir)
    result = train(tiny_config(folder), workdir)
    jax.tree.map(
        np.testing.assert_array_equal, *map(last_params, (uninterrupted[0], workdir))
    )
    assert read_metrics(workdir) == read_metrics(uninterrupted[0])
    assert result["metrics"] == uninterrupted[1]["metrics"]
    assert (workdir / "config.json").read_bytes() == (workdir / "lost").read_bytes()


@pytest.mark.parametrize(
    ("step", "words"), [(3, "no step is saved"), (6, "goes on from step 4$")]
)
def test_an_interrupt_says_from_where_a_run_goes_on(
    step, words, folder, tmp_path, monkeypatch
):
    log = loop.Loop._log

    def log_or_stop(self, done, *args, **options):
        if done == step:
            raise KeyboardInterrupt
        log(self, done, *args, **options)

    monkeypatch.setattr(loop.Loop, "_log", log_or_stop)
    config = tiny_config(folder, **{"train.checkpoint_every": 4})
    with pytest.raises(KeyboardInterrupt, match=words):
        train(Config.of(config), tmp_path)


def test_a_resumed_stream_goes_on_from_its_state(folder, tmp_path, monkeypatch):
    """AWD-LSTM's, whose rows begin with the state after those of the step before."""
    words = {"data.vocabulary": "words", "data.vocabulary_size": 16, "data.length": 8}
    shape = {"model.width": 8, "model.inner_width": 12, "model.layers": 2}
    others = {"model.heads": None, "model.feedforward": None, "train.eval_every": 0}
    config = tiny_config(folder, "awd_lstm", **words, **shape, **others)
    train(Config.of(config), tmp_path / "whole")
    train_until_killed(config, tmp_path / "killed", monkeypatch)
    train(Config.of(config), tmp_path / "killed")
    workdirs = tmp_path / "whole", tmp_path / "killed"
    jax.tree.map(np.testing.assert_array_equal, *map(last_params, workdirs))
    assert read_metrics(workdirs[0]) == read_metrics(workdirs[1])


def test_a_run_ends_when_its_minutes_are_used(folder, tmp_path, monkeypatch, capsys):
    """After a logged step, 3, has shown it; all its starts count together."""
    clock = iter(range(10**6))
    fake = SimpleNamespace(monotonic=lambda: 60.0 * next(clock))
    monkeypatch.setattr(loop, "time", fake)
    config = tiny_config(folder, **{"train.minutes": 2.0, "train.checkpoint_every": 2})
    result = train(Config.of(config), tmp_path)
    steps = result["steps"]
    assert steps == 4 and [x["step"] for x in read_metrics(tmp_path)] == [3, 4, 4]
    logged = [x for x in read_metrics(tmp_path) if "train/loss" in x]
    assert logged[-1]["learning_rate"] == pytest.approx(0.009)
    assert result["tokens_seen"] == logged[-1]["tokens_seen"] == steps * 16 * 32
    assert f"the run ends after step {steps} of 12" in capsys.readouterr().err
    before = read_metrics(tmp_path)
    (tmp_path / "result.json").unlink()
    again = train(Config.of(config), tmp_path)
    assert again["steps"] == steps and again["metrics"] == result["metrics"]
    assert again["train_seconds"] == result["train_seconds"] >= 120
    assert read_metrics(tmp_path) == before
    assert max(finished_steps(tmp_path / "checkpoints")) == steps


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "saved"])
def test_a_run_whose_minutes_end_between_logged_steps_counts_all_its_tokens(
    stopped, folder, tmp_path, monkeypatch
):
    """Where it is stopped, or saves a checkpoint, before the next logged step."""
    clock = iter(range(10**6))
    fake = SimpleNamespace(monotonic=lambda: 60.0 * next(clock))
    monkeypatch.setattr(loop, "time", fake)
    keys = {"train.minutes": 0.5, "train.log_every": 10, "train.eval_every": 0}
    keys |= {"train.checkpoint_every": 0 if stopped else 5}
    config = tiny_config(folder, **keys)
    if stopped:
        with pytest.raises(PreemptedError, match="after step 5"):
            devices, peers = jax.devices()[:1], StoppingPeers(6)
            loop.train(Config.of(config), tmp_path, devices=devices, peers=peers)
    result = train(Config.of(config), tmp_path)
    logged, _ = read_metrics(tmp_path)
    assert logged["step"] == result["steps"] == 5 and "train/loss" in logged
    assert result["tokens_scored"] == logged["tokens_scored"] > 0
    assert [line["step"] for line in read_speed(tmp_path)] == [5]


def test_a_workdir_that_is_moved_under_a_run_stays_in_one_place(
    folder, tmp_path, monkeypatch
):
    save, moved = loop.Loop._save, tmp_path / "moved"

    def move_and_save(self):
        (tmp_path / "run").rename(moved)
        save(self)

    monkeypatch.setattr(loop.Loop, "_save", move_and_save)
    with pytest.raises(UserError, match="was moved, deleted or replaced"):
        train(tiny_config(folder), tmp_path / "run")
    assert not (tmp_path / "run").exists() and (moved / "metrics.jsonl").exists()


def test_it_resumes_on_other_devices_and_meshes(uninterrupted, folder, tmp_path):
    """On 4, then 2 devices: the same text, and the losses of one device.

    The first is stopped in an evaluation, which the second repeats; that finds no
    metrics.jsonl, and counts tokens on from the checkpoint.
    """
    parts = (4, "fsdp", 9, 6), (2, "tensor", 0, 12)
    for count, axis, nth, step in parts:
        config = tiny_config(folder, **{"mesh.data": 1, f"mesh.{axis}": count})
        devices, peers = jax.devices()[:count], StoppingPeers(nth)
        if not nth:
            before = read_metrics(tmp_path)
            (tmp_path / "metrics.jsonl").unlink()
        with contextlib.ExitStack() as stack:
            if nth:
                words = f"stopped after step {step}, which is saved"
                stack.enter_context(pytest.raises(PreemptedError, match=words))
            loop.train(Config.of(config), tmp_path, devices=devices, peers=peers)
        assert next(finished_steps(tmp_path / "checkpoints")) == step
    expected, found = read_metrics(uninterrupted[0]), before + read_metrics(tmp_path)
    assert [line.keys() for line in found] == [line.keys() for line in expected]
    for one, other in zip(expected, found, strict=True):
        assert other == pytest.approx(one, rel=1e-5)


@pytest.mark.long  # tests/optimize has the state, the test above its way back
def test_a_frozen_run_that_is_stopped_goes_on(folder, tmp_path):
    """Its state has no moments of frozen parameters."""
    keys = {"optimizer.frozen": "token,stack", "mesh.data": 1, "mesh.fsdp": 2}
    keys |= {"train.steps": 6, "train.eval_every": 0, "train.checkpoint_every": 0}
    config, devices = tiny_config(folder, **keys), jax.devices()[:2]
    loop.train(Config.of(config), tmp_path / "whole", devices=devices)
    with pytest.raises(PreemptedError, match="after step 3"):
        loop.train(
            Config.of(config), tmp_path / "run", devices=devices, peers=StoppingPeers(4)
        )
    stopped = last_params(tmp_path / "run")
    loop.train(Config.of(config), tmp_path / "run", devices=devices)
    whole, resumed = (last_params(tmp_path / name) for name in ("whole", "run"))
    jax.tree.map(np.testing.assert_array_equal, whole, resumed)
    for part in ("token", "stack"):
        jax.tree.map(np.testing.assert_array_equal, stopped[part], resumed[part])


@pytest.mark.parametrize("steps", [12, 13])
def test_the_rate_of_a_logged_step_is_the_one_that_its_update_had(steps):
    """As SGD without momentum shows, whose update is minus the rate x the gradient."""
    keys = dict(name="sgd", beta1=0.0, clip_norm=0.0, warmup_steps=4)
    config = section(**keys, schedule="cosine", learning_rate=0.5)
    sgd = optimizer.make_optimizer(config, steps)
    params = {"output": {"bias": jnp.zeros(())}}
    state, rates = sgd.init(params), {}
    for step in range(1, steps + 1):
        updates, state = sgd.update({"output": {"bias": jnp.ones(())}}, state, params)
        rates[step] = -float(updates["output"]["bias"])
    logged = [rates[step] for step in rates if step % 3 == 0 or step == steps]
    np.testing.assert_allclose(logged_rates(config, steps, 3), logged, rtol=1e-6)


def test_metrics_are_read_one_step_late(folder, tmp_path, monkeypatch):
    order = []
    log, compile_step = loop.Loop._log, compiled_phases.compile_step

    def recording_compile(program):
        step, cost = compile_step(program)

        def recording_step(state, batch):
            order.append("step")
            return step(state, batch)

        return recording_step, cost

    def recording_log(self, step, *args, **kwargs):
        order.append(f"read {step}")
        log(self, step, *args, **kwargs)

    monkeypatch.setattr(compiled_phases, "compile_step", recording_compile)
    monkeypatch.setattr(loop.Loop, "_log", recording_log)
    changes = {"train.steps": 4, "train.log_every": 1, "train.eval_every": 0}
    train(tiny_config(folder, **changes), tmp_path)
    pairs = [event for n in (1, 2, 3) for event in ("step", f"read {n}")]
    assert order == ["step", *pairs, "read 4"]


def test_a_loss_that_is_not_finite_stops_the_run(folder, tmp_path):
    diverging = {"optimizer.learning_rate": 1e30, "optimizer.clip_norm": 0.0}
    with pytest.raises(loop.NonFiniteError, match=r"train/loss is .* by step"):
        train(
            Config.of(
                tiny_config(folder, **diverging, **{"train.checkpoint_every": 0})
            ),
            tmp_path,
        )
    assert not (tmp_path / "result.json").exists()


@pytest.mark.parametrize(
    ("rate", "changes", "words"),
    [
        (1e30, {"train.eval_every": 1}, "valid/loss is (nan|inf) after step 1"),
        (3e38, {"train.checkpoint_every": 1}, "parameters are not finite after step 1"),
    ],
)
def test_what_is_not_finite_is_neither_logged_nor_saved(
    rate, changes, words, folder, tmp_path
):
    keys = {"train.eval_every": 0, "train.checkpoint_every": 0, "train.log_every": 1}
    keys |= {"optimizer.learning_rate": rate, "optimizer.warmup_steps": 0}
    keys["optimizer.weight_decay"] = 1e4
    with pytest.raises(loop.NonFiniteError, match=words):
        train(tiny_config(folder, **keys | changes), tmp_path)
    assert not list(finished_steps(tmp_path / "checkpoints"))
    assert not any("valid/loss" in line for line in read_metrics(tmp_path))


def test_fine_tuning_starts_from_the_other_run(uninterrupted, folder, tmp_path, capsys):
    start = {
        "train.init_from": str(uninterrupted[0]),
        "data.vocabulary": str(uninterrupted[0]),
    }
    start["train.steps"] = 3
    config = tiny_config(folder, **start, **{"optimizer.learning_rate": 0.0})
    train(Config.of(config), tmp_path)
    jax.tree.map(
        np.testing.assert_array_equal, *map(last_params, (uninterrupted[0], tmp_path))
    )
    assert "reads the parameters of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model.width": 64}, "model.width is 32 there and 64 now"),
        ({"train.steps": 13}, "train.steps is 12 there and 13 now"),
    ],
)
def test_a_workdir_belongs_to_one_config(uninterrupted, folder, changes, words):
    with pytest.raises(UserError, match=words):
        train(tiny_config(folder, **changes), uninterrupted[0])


@pytest.mark.long
@pytest.mark.parametrize("objective", ["dae", "lm", "mlm", "plm", "electra"])
def test_losses_do_not_depend_on_mesh_or_accumulation(
    folder, tmp_path, monkeypatch, objective
):
    """On one device, and on a mesh of three axes in two micro-batches.

    There an evaluation has never two batches in flight. These would be safe on an
    accelerator, but their collectives can block each other where the devices are
    threads of one CPU.
    """
    short = {"train.steps": 4, "train.log_every": 1, "train.eval_every": 4}
    short |= {"data.held_out": 0.4, "train.batch": 8, "data.stride": 8}
    if objective == "electra":
        short |= {"objective.format": "stream"}  # segments have no stride
    split = {"mesh.data": 2, "mesh.fsdp": 2, "mesh.tensor": 2, "train.accumulate": 2}
    losses, calls = [], []

    def recording_build(config, devices):
        program = build_program(Config.of(config), devices)

        def evaluate(params, carry, sums, batch):
            calls.append(all(leaf.is_ready() for leaf in jax.tree.leaves(sums)))
            return program.evaluate(params, carry, sums, batch)

        return program._replace(evaluate=evaluate)

    for devices, changes in ((1, {}), (8, split)):
        if devices > 1:
            monkeypatch.setattr(compiled_phases, "build_program", recording_build)
        workdir = tmp_path / str(devices)
        train(
            tiny_config(folder, objective, **short, **changes),
            workdir,
            devices,
        )
        lines = read_metrics(workdir)
        losses.append([v for line in lines for k, v in line.items() if "/loss" in k])
    assert len(calls) > 50 and all(calls)
    assert len(losses[0]) == 5
    np.testing.assert_allclose(*losses, rtol=1e-5)
