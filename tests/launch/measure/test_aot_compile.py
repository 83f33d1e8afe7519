"""The facts of a compiled step: FLOPs, memory and collectives on fake devices."""

import jax
import pytest

from launch.config import load_config
from launch.measure import accelerators, aot_compile

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


def test_flops_equal_an_analytic_count(monkeypatch):
    chip = accelerators.Chip(flops=1e15, hbm=2**40, hbm_rate=1e9, link_rate=1e9)
    monkeypatch.setitem(accelerators.CHIPS, "cpu", chip)
    config = load_config("experiments/lm.py", SMALL)
    facts = aot_compile.compile_facts(config, "cpu:1", jax.devices()[:1])
    width, feedforward, vocabulary_size, length = 64, 128, 512, 32
    block = 4 * 2 * width**2 + 2 * 2 * width * feedforward + 2 * 2 * length * width
    forward = 3 * block + 2 * width * vocabulary_size
    assert facts["flops_per_token"] == pytest.approx(3 * forward, rel=0.03)
    assert facts["flops_per_step"] == facts["flops_per_token"] * 16 * 32
    assert facts["recomputed_flops_per_step"] == 0
    kinds = facts["computed_flops_by_kind"]
    assert kinds["float32 products"] == facts["flops_per_step"]
    # The parameters and Adam's moments are read and written.
    assert facts["hbm_traffic_bytes"] > 2 * 3 * 4 * facts["parameters"]
    assert facts["bound"]["by"] == "memory"
    assert facts["bound"]["memory_seconds"] == facts["hbm_traffic_bytes"] / 1e9


def test_recomputed_flops_of_remat_are_reported_separately():
    config = load_config("experiments/lm.py", SMALL | {"model.remat": "full"})
    full = aot_compile.compile_facts(config, "cpu:1", jax.devices()[:1])
    config = load_config("experiments/lm.py", SMALL)
    without = aot_compile.compile_facts(config, "cpu:1", jax.devices()[:1])
    assert full["flops_per_step"] == without["flops_per_step"]
    width, feedforward, length = 64, 128, 32
    block = 4 * 2 * width**2 + 2 * 2 * width * feedforward + 2 * 2 * length * width
    # All of a block is recomputed but its last product, which no gradient needs.
    forward = 3 * (block - 2 * width * feedforward) * 16 * 32
    assert full["recomputed_flops_per_step"] == pytest.approx(forward, rel=0.03)


@pytest.mark.long  # `make pod` compares them
def test_only_a_mesh_of_several_devices_has_collectives():
    config = load_config(
        "experiments/mlm.py", SMALL | {"mesh.fsdp": 2, "mesh.tensor": 2}
    )
    sharded = aot_compile.compile_facts(config, "cpu:8", jax.devices()[:8])
    config = load_config("experiments/mlm.py", SMALL)
    single = aot_compile.compile_facts(config, "cpu:1", jax.devices()[:1])
    assert sharded["mesh"] == {"data": 2, "fsdp": 2, "tensor": 2}
    assert sharded["argument_bytes"] < single["argument_bytes"] / 2
    assert not single["collectives"]
    assert sharded["collectives"]["all-gather"]["count"] >= 3
    assert sharded["parameters"] == single["parameters"]
    assert single["fits"] and single["hbm_bytes_per_device"] is None
    assert single["bound"] is None  # of a CPU no rates are known


def test_the_required_bytes_are_read_from_xlas_error():
    text = "RESOURCE_EXHAUSTED: ... Used 20.50G of 15.75G hbm. Exceeded by 4.75G."
    assert aot_compile._required_bytes(RuntimeError(text)) == int(20.5 * 2**30)
    with pytest.raises(RuntimeError, match="INTERNAL"):
        aot_compile._required_bytes(RuntimeError("INTERNAL: something else"))
