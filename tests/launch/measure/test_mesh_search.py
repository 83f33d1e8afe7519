"""The search of meshes: the cheapest remat policy that fits is found first."""

import pytest

from launch.config import load_config
from launch.measure import mesh_search

SMALL = {"data.length": 32, "model.layers": 3, "model.heads": 4, "train.batch": 16}
BYTES_PER_ROW = {"none": 20, "dots": 12, "full": 4}


def fake_facts(config, topology, devices):
    """A step that needs memory for each row of a device, and fits in 24 bytes."""
    rows = config.train.batch // (config.mesh.data * config.mesh.fsdp)
    peak = BYTES_PER_ROW[config.model.remat] * rows
    mesh = {axis: getattr(config.mesh, axis) for axis in ("data", "fsdp", "tensor")}
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
        "hbm_traffic_bytes": 1,
        "collectives": {"all-reduce": {"sent_bytes": mesh["tensor"]}},
    }


def test_a_search_finds_the_least_remat_that_fits(monkeypatch, capsys):
    monkeypatch.setattr(mesh_search, "compile_facts", fake_facts)
    config = load_config("experiments/lm.py", SMALL)
    tried = mesh_search.search(config, "cpu:4", [None] * 4)
    best = tried[0]
    assert best["fits"] and best["remat"] == "full"
    assert all(facts["fits"] for facts in tried[: sum(f["fits"] for f in tried)])
    assert "does not fit" in capsys.readouterr().err


@pytest.mark.parametrize("accumulate", [3, 4])
def test_a_batch_that_is_halved_has_whole_micro_batches(accumulate, monkeypatch):
    """On each device of each mesh, as `build_program` requires."""
    monkeypatch.setattr(mesh_search, "compile_facts", fake_facts)
    keys = {"train.batch": 48, "train.accumulate": accumulate}
    config = load_config("experiments/lm.py", SMALL | keys)
    tried = mesh_search.search(config, "cpu:4", [None] * 4)
    assert {facts["batch"] for facts in tried} > {48, 24}
    for facts in tried:
        shards = facts["mesh"]["data"] * facts["mesh"]["fsdp"]
        assert facts["batch"] % (shards * accumulate) == 0
