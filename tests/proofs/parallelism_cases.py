"""Meshes, processes and micro-batches, and the gradient and losses under each."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from launch import cli
from launch.config import load_config
from research.config.config import Config
from research.contract.errors import UserError


class Case(NamedTuple):
    """How a batch is divided."""

    processes: int = 1
    devices: int = 1  # of each process
    mesh: tuple[int, int, int] = (1, 1, 1)  # data, fsdp, tensor
    accumulate: int = 1  # micro-batches


REFERENCE = "1 device"
CASES = {
    REFERENCE: Case(),
    "accumulate 2": Case(accumulate=2),
    "accumulate 4": Case(accumulate=4),
    "data 8": Case(devices=8, mesh=(8, 1, 1)),
    "fsdp 8": Case(devices=8, mesh=(1, 8, 1)),
    "data 4 x tensor 2": Case(devices=8, mesh=(4, 1, 2)),
    "2 x 2 x 2": Case(devices=8, mesh=(2, 2, 2)),
    "2 x 2 x 2, accumulate 2": Case(devices=8, mesh=(2, 2, 2), accumulate=2),
    "2 processes": Case(processes=2, devices=4, mesh=(2, 2, 2)),
    "4 processes": Case(processes=4, devices=2, mesh=(4, 1, 2)),
}
OVERRIDES = {
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
"""Config keys of all objectives, chosen so that training does not amplify rounding.

The activation is smooth, since rounding can change the side of a ReLU's corner on which
an input lies. Adam corrects the bias of its moments: without the correction InfoWord's
first steps are three times as large, and the losses of two cases, which differ by 1e-7
at first, differ by 2e-5 after 45 steps.
"""


def make_config(
    name: str, spec: str, case: Case, data: Mapping[str, str], steps: int
) -> Any:
    """The config of an experiment in a case.

    Args:
      name: of the experiment, or of the objective if `spec` is research/config/base.py.
      spec: the experiment's file, with a size.
      data: values of keys of the section `data`.
      steps: of training.
    """
    data = {f"data.{key}": value for key, value in data.items()}
    if load_config(spec).data.mixture:
        data["data.mixture"] = {data["data.corpus"]: 1.0}
    mesh = zip(("mesh.data", "mesh.fsdp", "mesh.tensor"), case.mesh, strict=True)
    own = {"train.steps": steps, "train.accumulate": case.accumulate}
    if spec.startswith("research/config/base.py"):
        own["objective.name"] = name
    return load_config(spec, own | data | OVERRIDES | dict(mesh))


def measure(config: Any) -> dict[str, Any]:
    """The first gradient, by parameter name, and all losses, on every host."""
    import jax
    import numpy as np
    import optax
    from jax.experimental import multihost_utils

    from research.checkpoints.checkpoint import path_name
    from research.distributed import sharding
    from research.program.setup import build_program, initial_state, train_batches
    from research.program.step import host_means

    program = build_program(Config.of(config))

    def add_noise(params: Any) -> Any:
        leaves, tree = jax.tree.flatten(params)
        keys = jax.random.split(jax.random.key(1), len(leaves))
        pairs = zip(keys, leaves, strict=True)
        added = [leaf + jax.random.normal(key, leaf.shape) / 20 for key, leaf in pairs]
        return jax.tree.unflatten(tree, added)

    def to_host(leaf: jax.Array) -> np.ndarray:
        if leaf.is_fully_addressable:
            return np.asarray(leaf)
        return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))

    grads, losses = {}, []
    with sharding.context(program.mesh):
        where = jax.tree.map(lambda leaf: leaf.sharding, program.abstract_state.params)
        state = initial_state(program, config.seed)
        state = state._replace(
            params=jax.jit(add_noise, out_shardings=where)(state.params)
        )
        key_data = program.key_data()
        for batch in train_batches(program, 0, config.train.steps):
            state = program.step(state, batch, key_data)
            losses.append(host_means(jax.device_get(state.sums))["loss"])
            if not grads:
                moment = optax.tree.get(state.opt_state, "mu")
                leaves = jax.tree_util.tree_leaves_with_path(moment)
                grads = {path_name(path): to_host(leaf) for path, leaf in leaves}
    return grads | {"losses": np.array(losses)}


def work(folder: Path, plan: dict[str, Any], index: int) -> None:
    """Measures the plan's cases, which need the same processes and devices.

    Each process of the cases calls this. Writes OBJECTIVE.CASE.npz to the folder, or
    OBJECTIVE.CASE.txt with the message if the objective does not support the case.

    Args:
      plan: "coordinator", "processes", "experiments", "cases", "text" and "steps".
      index: of this process.
    """
    import numpy as np

    from research.distributed import processes
    from research.distributed.cluster import join_cluster
    from research.distributed.peers import Peers

    peers = Peers(lost_exit_code=cli.PREEMPTED)
    place = processes.find_cluster(plan["coordinator"], plan["processes"], index)
    if place:
        peers = join_cluster(place, timeout_s=300, lost_exit_code=cli.PREEMPTED)
    text, steps = plan["text"], plan["steps"]
    for objective, spec in plan["experiments"].items():
        for name in plan["cases"]:
            stem = f"{folder}/{objective}.{name}"
            try:
                arrays = measure(make_config(objective, spec, CASES[name], text, steps))
            except UserError as error:
                if "cannot be split" not in str(error):
                    raise
                Path(f"{stem}.txt").write_text(str(error))
                continue
            if index == 0:
                np.savez(f"{stem}.npz", **arrays)
                print(f"{objective}: {name}", file=sys.stderr, flush=True)
    peers.leave()
