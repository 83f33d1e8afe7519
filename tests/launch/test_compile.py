"""launch.compile on fake devices: what it says of a step is what the step is."""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from launch import compile as command
from launch.config import load
from launch.hardware import tpu_topology
from research.errors import UserError
from research.run import hlo_collectives
from tests.proofs import compile_regression

ROOT = Path(__file__).parents[2]
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


def test_flops_are_those_of_an_analytic_count():
    config = load("experiments/lm.py", SMALL)
    facts = command.measure(config, "cpu:1", jax.devices()[:1])
    width, inner, rows, length = 64, 128, 512, 32
    block = 4 * 2 * width**2 + 2 * 2 * width * inner + 2 * 2 * length * width
    forward = 3 * block + 2 * width * rows
    assert facts["flops_per_token"] == pytest.approx(3 * forward, rel=0.03)
    assert facts["flops_per_step"] == facts["flops_per_token"] * 16 * 32
    assert facts["recomputed_flops_per_step"] == 0


def test_what_remat_recomputes_is_told_apart():
    config = load("experiments/lm.py", SMALL | {"model.remat": "full"})
    again = command.measure(config, "cpu:1", jax.devices()[:1])
    plain = load("experiments/lm.py", SMALL)
    plain = command.measure(plain, "cpu:1", jax.devices()[:1])
    assert again["flops_per_step"] == plain["flops_per_step"]
    width, inner, length = 64, 128, 32
    block = 4 * 2 * width**2 + 2 * 2 * width * inner + 2 * 2 * length * width
    # Everything of a block is computed again but its last product, which nobody needs.
    forward = 3 * (block - 2 * width * inner) * 16 * 32
    assert again["recomputed_flops_per_step"] == pytest.approx(forward, rel=0.03)


def test_a_mesh_talks_and_one_device_does_not():
    config = load("experiments/mlm.py", SMALL | {"mesh.fsdp": 2, "mesh.tensor": 2})
    split = command.measure(config, "cpu:8", jax.devices()[:8])
    config = load("experiments/mlm.py", SMALL)
    alone = command.measure(config, "cpu:1", jax.devices()[:1])
    assert split["mesh"] == {"data": 2, "fsdp": 2, "tensor": 2}
    assert split["argument_bytes"] < alone["argument_bytes"] / 2
    assert not alone["collectives"]
    assert split["collectives"]["all-gather"]["count"] >= 3
    assert split["parameters"] == alone["parameters"]
    assert alone["fits"] and alone["hbm_bytes_per_device"] is None


def test_a_collective_in_a_loop_counts_as_often_as_it_runs():
    mesh = jax.make_mesh((8,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    rows = NamedSharding(mesh, PartitionSpec("x"))

    def looped(x, w):
        def body(y, _):
            return jnp.tanh(w.T @ (w @ y)), None

        return jax.lax.scan(body, x, None, length=7)[0]

    shapes = (
        jax.ShapeDtypeStruct((32, 4), jnp.float32),
        jax.ShapeDtypeStruct((64, 32), jnp.float32, sharding=rows),
    )
    found = hlo_collectives.count_collectives(
        jax.jit(looped).lower(*shapes).compile().as_text()
    )
    assert found == {"all-reduce": hlo_collectives.Collective(7, 7 * 32 * 4 * 4)}


HLO = """
HloModule step

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  ROOT %s = f32[] add(%a, %b)
}

%all-reduce-scatter.8.clone.1 (p: bf16[8,4]) -> bf16[2,4] {
  %r = bf16[8,4]{1,0} all-reduce(%p), to_apply=%add
  ROOT %d = bf16[2,4]{1,0} dynamic-slice(%r, %c)
}

%begins (p: bf16[2]) -> bf16[4] {
  %all-gather.1 = bf16[4]{0} all-gather(%p), channel_id=5, dimensions={0}
}

%ends (p: bf16[2]) -> bf16[4] {
  %all-gather.2 = bf16[4]{0} all-gather(%p), channel_id=5, dimensions={0}
}

%more (t: (s32[], bf16[2])) -> pred[] {
  %five = s32[]{:T(128)} constant(5)
  ROOT %lt = pred[]{:T(512)} compare(%i, %five), direction=LT
}

%again (t: (s32[], bf16[2])) -> (s32[], bf16[2]) {
  %x = bf16[4]{0} fusion(%y), kind=kCustom, calls=%begins
  %z = bf16[4]{0} fusion(%x), kind=kCustom, calls=%ends
  %s = (s32[2]{0}, s32[3]{0}) all-to-all(%u, %v), channel_id=1, dimensions={0}
  %t = (s32[2]{0}, s32[3]{0}) all-to-all(%u, %v), channel_id=1, dimensions={0}
  %all-reduce-scatter.9 = bf16[2]{0} fusion(%y), kind=kCustom, calls=%ends.1
  %o = bf16[2]{0} fusion(%all-reduce-scatter.9), kind=kLoop, calls=%ends.2
}

%body (t: (s32[], bf16[8,4])) -> (s32[], bf16[8,4]) {
  %fusion.46 = bf16[2,4]{1,0} fusion(%x), kind=kCustom, \
calls=%all-reduce-scatter.8.clone.1, metadata={}
  ROOT %g = (bf16[2,4]{1,0}, bf16[8,4]{1,0}) all-gather-start(%y), dimensions={0}
}

ENTRY %main (p: bf16[8,4]) -> bf16[8,4] {
  %w = (s32[], bf16[8,4]{1,0}) while(%t), condition=%c, body=%body, \
backend_config={"known_trip_count":{"n":"12"},"known_init_step":{"init":"0"}}
  %n = (s32[], bf16[2]{0}) while(%t), condition=%more, body=%again, metadata={}
  %k = (f32[2]{0}, f32[]) all-reduce(%u, %v), to_apply=%add
  ROOT %e = bf16[8,4]{1,0} copy(%w)
}
"""


def test_a_tpus_text_is_read():
    found = hlo_collectives.count_collectives(HLO)
    assert found["reduce-scatter"] == (12 + 5, 12 * 2 * 4 * 2 + 5 * 2 * 2)
    assert found["all-gather"] == (12 + 5, 12 * 8 * 4 * 2 + 5 * 4 * 2)
    assert found["all-to-all"] == (10, 5 * 2 * 20)
    assert found["all-reduce"] == (1, 12)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("v5e", "v5e:4x4"),
        ("cpu:0", "cpu:N"),
        ("cpu", "cpu:N"),
        ("gpu", "no GPU here"),
        ("v9:2x2", "TPU slice such as"),
    ],
)
def test_a_wrong_topology_is_named(name, words):
    with pytest.raises(UserError, match=words):
        tpu_topology.topology(name)


@pytest.mark.parametrize("version", ["0.0.99", None])
def test_another_libtpu_than_jax_asks_for_is_refused(version, monkeypatch):
    def found(name):
        if not version:
            raise importlib.metadata.PackageNotFoundError(name)
        return version

    monkeypatch.setattr(importlib.metadata, "version", found)
    with pytest.raises(UserError, match=rf"needs libtpu==.*{version or 'brings'}"):
        tpu_topology.topology("v5e:2x2")


CRASH = """
import json, os, sys
from tests.proofs import compile_regression as pod

def compiled(case):
    if case.name == "electra":
        os.kill(os.getpid(), 11)
    return json.loads(case.golden.read_text())

pod.compiled = compiled
sys.exit(pod.run(pod.parser().parse_args(["--ci"])))
"""


def test_a_crash_of_the_compiler_costs_one_case():
    command = [sys.executable, "-c", CRASH]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1, done.stderr
    *lines, last = done.stdout.splitlines()
    (crash,) = [line for line in lines if "as before" not in line]
    assert crash.endswith("electra:tiny on v5e:2x2: the compiler crashed")
    assert last == "4 of 5 compile as before"


def test_xlas_refusal_tells_what_is_needed():
    text = "RESOURCE_EXHAUSTED: ... Used 20.50G of 15.75G hbm. Exceeded by 4.75G."
    assert command._needed(RuntimeError(text)) == int(20.5 * 2**30)
    with pytest.raises(RuntimeError, match="INTERNAL"):
        command._needed(RuntimeError("INTERNAL: something else"))


def test_a_search_finds_the_least_remat_that_fits(monkeypatch, capsys):
    sizes = {"none": 20, "dots": 12, "full": 4}

    def measured(config, name, devices):
        rows = config.train.batch // (config.mesh.data * config.mesh.fsdp)
        peak = sizes[config.model.remat] * rows
        mesh = {axis: config.mesh[axis] for axis in ("data", "fsdp", "tensor")}
        return {
            "mesh": mesh,
            "remat": config.model.remat,
            "batch": config.train.batch,
            "length": 32,
            "num_devices": 4,
            "device": "cpu",
            "fits": peak <= 24,
            "peak_bytes_per_device": peak,
            "flops_per_step": 1.0,
            "recomputed_flops_per_step": float(config.model.remat != "none"),
            "collectives": {"all-reduce": {"count": 1, "bytes": mesh["tensor"]}},
        }

    monkeypatch.setattr(command, "measure", measured)
    found = command.search(load("experiments/lm.py", SMALL), "cpu:4", [None] * 4)
    best = found[0]
    assert best["fits"] and best["remat"] == "full"
    assert all(facts["fits"] for facts in found[: sum(f["fits"] for f in found)])
    assert "does not fit" in capsys.readouterr().err


def test_the_command_prints_one_object(tmp_path):
    flags = ["--config=experiments/lm.py", "--topology=cpu:2"]
    flags += [f"--config.{key}={value}" for key, value in SMALL.items()]
    done = subprocess.run(
        [sys.executable, "-m", "launch.compile", *flags],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["topology"] == "cpu:2" and facts["num_devices"] == 2
    assert facts["fits"] and np.isfinite(facts["compile_seconds"])


def test_every_published_size_was_compiled_and_fits_its_slice():
    cases = [*compile_regression.cases(ci=True), *compile_regression.cases(ci=False)]
    assert {case.golden for case in cases} == set(
        compile_regression.GOLDENS.glob("*.json")
    )
    for case in cases:
        facts = compile_regression.golden(case)
        assert facts["fits"] and facts["topology"] == case.topology, case


def test_what_does_not_fit_is_wrong_whatever_was_before():
    facts = compile_regression.golden(next(compile_regression.cases(ci=True))) | {
        "fits": False
    }
    assert compile_regression.differences(facts, facts) == ["it does not fit"]


def test_what_is_worse_than_the_golden_is_shown():
    before = {
        "topology": "v5e:2x2",
        "mesh": {"data": 4},
        "batch": 8,
        "fits": True,
        "peak_bytes_per_device": 1000,
        "parameters": 10,
        "collectives": {"all-reduce": 2},
        "tree": {"token/rows": "4x2"},
    }
    assert not compile_regression.differences(
        before, before | {"peak_bytes_per_device": 1020}
    )
    assert not compile_regression.differences(
        before, before | {"peak_bytes_per_device": 500}
    )
    (line,) = compile_regression.differences(
        before, before | {"peak_bytes_per_device": 1021}
    )
    assert "1,021 now" in line
    (line,) = compile_regression.differences(
        before, before | {"tree": {"token/rows": "4x3"}}
    )
    assert line == "tree token/rows: 4x2 before, 4x3 now"
    both = {"all-reduce": 2, "all-gather": 1}
    (line,) = compile_regression.differences(before, before | {"collectives": both})
    assert line == "collectives all-gather: none before, 1 now"
