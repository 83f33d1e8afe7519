"""How a batch is spread over devices, processes and parts, and what it then teaches."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from launch import cli
from launch.config import load
from research.errors import UserError


class Way(NamedTuple):
    """How a batch is spread."""

    processes: int = 1
    devices: int = 1  # of each process
    mesh: tuple[int, int, int] = (1, 1, 1)  # data, fsdp, tensor
    accumulate: int = 1


ALONE = "1 device"
WAYS = {
    ALONE: Way(),
    "in 2 parts": Way(accumulate=2),
    "in 4 parts": Way(accumulate=4),
    "data 8": Way(devices=8, mesh=(8, 1, 1)),
    "fsdp 8": Way(devices=8, mesh=(1, 8, 1)),
    "data 4 x tensor 2": Way(devices=8, mesh=(4, 1, 2)),
    "2 x 2 x 2": Way(devices=8, mesh=(2, 2, 2)),
    "2 x 2 x 2, in 2 parts": Way(devices=8, mesh=(2, 2, 2), accumulate=2),
    "2 processes": Way(processes=2, devices=4, mesh=(2, 2, 2)),
    "4 processes": Way(processes=4, devices=2, mesh=(4, 1, 2)),
}
SAME = {
    "data.held_out": 0.1,
    "data.vocabulary_size": 384,
    "data.length": 32,
    "model.layers": 2,
    "model.width": 64,
    "model.heads": 2,
    "model.feedforward": 256,
    "model.activation": "gelu",
    "model.dropout": 0.0,
    "optimizer.name": "adamw",
    "optimizer.learning_rate": 1e-3,
    "optimizer.bias_correction": True,
    "optimizer.warmup_steps": 4,
    "train.batch": 16,
    "train.log_every": 1,
}
"""What all objectives are measured with, so that training does not enlarge rounding.

The activation is smooth: rounding tells on which side of its corner a ReLU is. Adam is
corrected: without it InfoWord's first steps are three times as large; its loss, 1e-7
apart at first, is 2e-5 apart after 45.
"""


def configured(
    name: str, spec: str, way: Way, data: Mapping[str, str], steps: int
) -> Any:
    """The config of an experiment under a way; `name` may be that of its objective."""
    data = {f"data.{key}": value for key, value in data.items()}
    if load(spec).data.mixture:
        data["data.mixture"] = {data["data.corpus"]: 1.0}
    mesh = zip(("mesh.data", "mesh.fsdp", "mesh.tensor"), way.mesh, strict=True)
    own = {"train.steps": steps, "train.accumulate": way.accumulate}
    if spec.startswith("experiments/base.py"):
        own["objective.name"] = name
    return load(spec, own | data | SAME | dict(mesh))


def measure(config: Any) -> dict[str, Any]:
    """The first gradient and all losses, on the host of every process."""
    import jax
    import numpy as np
    import optax
    from jax.experimental import multihost_utils

    from research.checkpoints.checkpoint import path_name
    from research.distributed import sharding
    from research.run.setup import build_program, initial_state, train_batches
    from research.step import host_means

    program = build_program(config)

    def noisy(params: Any) -> Any:
        leaves, tree = jax.tree.flatten(params)
        keys = jax.random.split(jax.random.key(1), len(leaves))
        pairs = zip(keys, leaves, strict=True)
        added = [leaf + jax.random.normal(key, leaf.shape) / 20 for key, leaf in pairs]
        return jax.tree.unflatten(tree, added)

    def whole(leaf: jax.Array) -> np.ndarray:
        if leaf.is_fully_addressable:
            return np.asarray(leaf)
        return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))

    found, losses = {}, []
    with sharding.context(program.mesh):
        where = jax.tree.map(lambda leaf: leaf.sharding, program.abstract_state.params)
        state = initial_state(program, config.seed)
        state = state._replace(params=jax.jit(noisy, out_shardings=where)(state.params))
        for batch in train_batches(program, 0, config.train.steps):
            state = program.step(state, batch)
            losses.append(host_means(jax.device_get(state.sums))["loss"])
            if not found:
                moment = optax.tree.get(state.opt_state, "mu")
                leaves = jax.tree_util.tree_leaves_with_path(moment)
                found = {path_name(path): whole(leaf) for path, leaf in leaves}
    return found | {"losses": np.array(losses)}


def work(folder: Path, plan: dict[str, Any], index: int) -> None:
    """One process of several that share their ways' numbers of processes and devices.

    Leaves OBJECTIVE.WAY.npz in the folder, or .txt with the reason of a refusal.
    """
    import numpy as np

    from research.distributed import processes

    place = processes.find_cluster(plan["coordinator"], plan["processes"], index)
    peers = processes.join_cluster(place, timeout_s=300, lost_exit_code=cli.PREEMPTED)
    text, steps = plan["text"], plan["steps"]
    for objective, spec in plan["experiments"].items():
        for name in plan["ways"]:
            stem = f"{folder}/{objective}.{name}"
            try:
                arrays = measure(configured(objective, spec, WAYS[name], text, steps))
            except UserError as error:
                if "cannot be split" not in str(error):
                    raise
                Path(f"{stem}.txt").write_text(str(error))
                continue
            if index == 0:
                np.savez(f"{stem}.npz", **arrays)
                print(f"{objective}: {name}", file=sys.stderr, flush=True)
    peers.leave()
