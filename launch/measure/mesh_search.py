"""Searches for a mesh, remat policy and batch with which a step fits a slice."""

import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from launch.measure import accelerators
from launch.measure.accelerators import Chip
from launch.measure.aot_compile import compile_facts
from launch.measure.roofline import step_times
from research.config.config import Config

NO_DATA_SHEET = Chip(flops=1e12, hbm=0, hbm_rate=1e11, link_rate=1e11)
"""Stands for an unknown chip. Only the order of meshes depends on it."""


def search(config: Config, topology: str, devices: Sequence[Any]) -> list[dict]:
    """Facts about every compiled step, best first (`_cost`).

    Each mesh is tried with the config's batch, which is halved while no remat policy
    fits; each device has as many rows of each micro-batch.
    """
    tried = []
    unit = config.model.mesh_unit
    for mesh in meshes(len(devices), unit):
        least_batch = mesh["data"] * mesh["fsdp"] * config.train.accumulate
        rows = max(1, config.train.batch // least_batch)  # of a device's micro-batch
        while rows:
            batch = rows * least_batch
            facts = _try_remat_policies(config, topology, devices, mesh, batch, tried)
            rows = 0 if facts["fits"] else rows // 2
    return sorted(tried, key=_cost)


def meshes(num_devices: int, unit: int) -> Iterator[dict[str, int]]:
    """Mesh shapes to try: the tensor axis is at most 8 and divides `unit`.

    Args:
      unit: the network's `mesh_unit`, such as its number of heads.
    """
    for tensor in (1, 2, 4, 8):
        if num_devices % tensor or unit % tensor:
            continue
        rest = num_devices // tensor
        for fsdp in sorted({1, 4, 16, rest}):
            if rest % fsdp == 0:
                yield {"data": rest // fsdp, "fsdp": fsdp, "tensor": tensor}


def _try_remat_policies(config, topology, devices, mesh, batch, tried) -> dict:
    """Facts about the first remat policy that fits, else about the last.

    Facts about all compiled steps are appended to `tried`.
    """
    for remat in (
        ("none", "dots", "full") if "remat" in config.values["model"] else ("none",)
    ):
        trial = _with_mesh(config, mesh, remat, batch)
        facts = compile_facts(trial, topology, devices)
        tried.append({key: value for key, value in facts.items() if key != "tree"})
        print(_summary(facts), file=sys.stderr, flush=True)
        if facts["fits"]:
            break
    return facts


def _with_mesh(config: Config, mesh: dict[str, int], remat: str, batch: int) -> Config:
    """The config with another mesh, remat policy and batch."""
    changes = {f"mesh.{axis}": size for axis, size in mesh.items()}
    if "remat" in config.values["model"]:
        changes["model.remat"] = remat
    return config.with_values({**changes, "train.batch": batch})


def _cost(facts: dict) -> tuple[bool, float]:
    """Sort key: steps that fit first, then by estimated seconds for each token.

    The estimate is the sum of the step's times for compute, memory and network at the
    chip's published rates, without overlap. Their maximum, the bound, would not
    distinguish meshes that differ in another time than the slowest.
    """
    if "collectives" not in facts:  # not compiled
        return True, math.inf
    chip = accelerators.find_chip(facts["device"]) or NO_DATA_SHEET
    tokens = facts["batch"] * facts["length"]
    return not facts["fits"], sum(step_times(facts, chip)) / tokens


def _summary(facts: dict) -> str:
    mesh = " x ".join(f"{axis} {size}" for axis, size in facts["mesh"].items())
    peak = facts["peak_bytes_per_device"]
    size = f"{peak / 2**30:.2f} GiB a device" if peak else "too large"
    fits = "fits" if facts["fits"] else "does not fit"
    return f"{mesh}, remat {facts['remat']}, batch {facts['batch']}: {size}, {fits}"
