"""`speed` measures steps and attention, and says what it could not measure."""

import json
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from launch.commands import speed
from launch.measure import step_speed, timing
from launch.measure.attention_speed import PATTERNS, make_case
from launch.measure.placeholder_vocab import placeholder_vocab
from launch.measure.random_batch import random_batch
from launch.measure.timing import DOES_NOT_FIT, NO_TIME, Job, run_jobs
from research.config import base
from research.config.config import Config
from research.contract.batch import attention_mask
from research.networks.transformer import kernels
from research.program.flops import Cost
from tests.testing import visual
from tests.testing.example_batches import vocab


def test_a_run_writes_what_it_measured(tmp_path, monkeypatch, capsys):
    size = speed.Size(base.SIZES["tiny"], (16,), 16, (16,), 16, 2, 8, 64)
    monkeypatch.setitem(speed.SIZES, "tiny", size)
    monkeypatch.setattr(timing, "TURN_SECONDS", 0)
    monkeypatch.setattr(speed, "NETWORKS", {"lm": speed.NETWORKS["lm"]})
    monkeypatch.setattr("launch.measure.attention_speed.PATTERNS", ("packed",))
    speed.run(speed.parser().parse_args(["--folder", str(tmp_path)]))
    figures = json.loads((tmp_path / "speed.json").read_text())
    (step,) = figures["steps"]
    num_devices, layers, width = 8, 2, 64
    assert step["tokens_per_second"] == num_devices * 16 / step["step_seconds"]
    hidden = 6 * layers * num_devices * 16**2 * width
    assert step["flops_hidden_by_causal_masks"] == hidden
    assert step["flops_per_second"] * step["step_seconds"] > 2 * hidden
    assert figures["product_flops_per_second"] > 0 and step["mfu"] is None
    dense, interval, library = figures["attention"]
    pairs = 8 * 9 // 2 + 4 * 5 // 2 + 2 * 3
    assert dense["flops_per_second"] * dense["seconds"] == pytest.approx(
        12 * 2 * 8 * pairs
    )
    refusal = "model.attention interval runs on cuda or tpu, not cpu"
    assert interval["not_run"].startswith(refusal) and library["seconds"] > 0
    text = (tmp_path / "speed.md").read_text()
    assert text in capsys.readouterr().out and f"| {refusal}" in text


@pytest.mark.parametrize("only", ["steps", "attention"])
def test_a_part_is_measured_alone(tmp_path, monkeypatch, only):
    def measure(size, seconds):
        jobs = {"steps": size.step_lengths, "attention": size.attention_lengths}
        assert [name for name, lengths in jobs.items() if lengths] == [only]
        return figures

    measured = {"product_size": 8, "product_flops_per_second": 1.0, "seconds": 1.0}
    figures = measured | {"device": "cpu", "num_devices": 1, "jax": "0"}
    figures |= {"peak_flops_per_second": None, "steps": [], "attention": []}
    monkeypatch.setattr(speed, "measure", measure)
    speed.run(speed.parser().parse_args([f"--folder={tmp_path}", f"--only={only}"]))
    assert "##" not in (tmp_path / "speed.md").read_text(), "no empty tables"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_pairs_of_a_pattern_are_those_that_attend(pattern):
    case = make_case(pattern, 2, 24)
    assert attention_mask(case.group).sum() == 2 * case.pairs


@pytest.mark.parametrize("name", speed.NETWORKS)
def test_batches_of_random_tokens_are_as_the_objective_says(name):
    experiment, changes = speed.NETWORKS[name]
    length, rows = 2048, 2
    keys = {"data.sentinels": speed.SENTINELS, "data.length": length} | changes
    config = speed.load_config(experiment, keys)
    objective = Config.of(config).objective
    batch = random_batch(objective, placeholder_vocab(config), rows, length)
    for array, spec in objective.batch_spec(length).items():
        assert batch[array].shape == (rows, *spec.shape)
        assert batch[array].dtype == spec.dtype
    weights = [v for k, v in batch.items() if k.endswith("weight")]
    assert all(np.any(weight > 0, axis=1).all() for weight in weights)


def test_batches_of_images_are_as_the_objective_says():
    objective = visual.Objective()
    batch = random_batch(objective, vocab(), 2, 12)
    for array, spec in objective.batch_spec(12).items():
        assert batch[array].shape == (2, *spec.shape)
        assert batch[array].dtype == spec.dtype


def test_a_step_that_its_config_refuses_costs_no_other_step(monkeypatch):
    """Relative terms on a GPU, where JAX's kernel has none."""
    monkeypatch.setattr(kernels, "platform", lambda: "cuda")
    size = speed.SIZES["tiny"]._replace(step_lengths=(64,))
    jobs = {(j.facts["name"], j.facts["attention"]): j for j in speed._step_jobs(size)}
    (record,) = run_jobs([jobs["plm, relative positions", "library"]], 60)
    assert "library has no relative terms" in record["not_run"]
    assert {kind for _, kind in jobs} == {"dense", "interval", "library"}


def test_rows_are_halved_until_they_fit(monkeypatch):
    config = speed.load_config("experiments/lm.py", {"train.batch": 64})
    tried = []

    def compile_step(config):
        tried.append(config.train.batch)
        if config.train.batch == 64:
            raise RuntimeError("RESOURCE_EXHAUSTED: Used 9G of 8G hbm")
        return None, Cost(1.0, 0.0, config.train.batch)

    monkeypatch.setattr(step_speed, "build_program", lambda config, vocab: config)
    monkeypatch.setattr(step_speed, "compile_step", compile_step)
    monkeypatch.setattr(step_speed, "device_memory", lambda: 16)
    fitting, *_ = step_speed._compile_what_fits(config)
    assert fitting.train.batch == 16 and tried == [64, 32, 16]
    in_threes = speed.load_config(
        "experiments/lm.py", {"train.batch": 72, "train.accumulate": 3}
    )
    tried.clear()
    step_speed._compile_what_fits(in_threes)
    assert tried == [72, 24], "each device has a row of each micro-batch"
    monkeypatch.setattr(step_speed, "device_memory", lambda: 7)
    assert step_speed._compile_what_fits(config) is None


def test_what_is_not_measured_says_why():
    def measure():
        return {"seconds": 1}

    def no_memory():
        raise RuntimeError("RESOURCE_EXHAUSTED: out of memory")

    def bug():
        raise RuntimeError("another")

    def refused():
        raise jax.errors.JaxRuntimeError("INTERNAL: no such plan\nmore")

    prepared = {"large": no_memory, "late": lambda: no_memory, "refused": refused}
    prepared["fine"] = lambda: measure
    jobs = [Job({"job": name}, prepare) for name, prepare in prepared.items()]
    *others, fine = run_jobs(jobs, 60)
    assert fine == {"job": "fine", "seconds": 1}
    reasons = [DOES_NOT_FIT, DOES_NOT_FIT, "INTERNAL: no such plan"]
    assert [record["not_run"] for record in others] == reasons
    assert run_jobs(jobs[-1:], -1)[0]["not_run"] == NO_TIME
    with pytest.raises(RuntimeError, match="another"):
        run_jobs([Job({}, lambda: bug)], 60)


@pytest.mark.parametrize("platform, at_once", [("gpu", 1), ("cpu", 2)])
def test_jobs_that_were_compiled_in_time_are_measured(monkeypatch, platform, at_once):
    """A limit that ends within a compilation costs its figures only those after it."""
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    monkeypatch.setattr(timing, "MAX_THREADS", 2)
    monkeypatch.setattr(timing.os, "cpu_count", lambda: 8)
    clock = [0.0]
    monkeypatch.setattr(timing, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    def prepare():
        clock[0] += 100
        return lambda: {"seconds": 1}

    records = run_jobs([Job({"job": job}, prepare) for job in range(4)], 60)
    measured = [record["job"] for record in records if "seconds" in record]
    assert measured == list(range(at_once))
    assert [record["not_run"] for record in records[at_once:]] == [NO_TIME] * (
        4 - at_once
    )


def test_a_call_takes_as_long_as_in_its_fastest_turn(monkeypatch):
    clock = iter([0, 10, 0, 4, 0, 2, 0, 3])  # a call of 10 s, then three turns of one
    fake = SimpleNamespace(monotonic=lambda: next(clock))
    monkeypatch.setattr(timing, "time", fake)
    assert timing.best_seconds(lambda: 1.0) == 2
