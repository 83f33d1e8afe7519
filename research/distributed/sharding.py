"""The mesh, and how parameters and batches are sharded over it."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from research import networks
from research.contract.errors import UserError
from research.distributed.options import MeshOptions

MESH_AXES = ("data", "fsdp", "tensor")
BATCH_AXES = ("data", "fsdp")

LOGICAL_AXIS_RULES = (
    ("batch", BATCH_AXES),
    ("length", None),
    ("layers", None),
    ("vocab", "tensor"),
    ("embed", "fsdp"),
    ("heads", "tensor"),
    ("feedforward", "tensor"),
)
"""Logical axis name -> the mesh axes that shard it; None: replicated."""


def make_mesh(sizes: MeshOptions, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh of axes data, fsdp, tensor over all devices.

    Args:
      sizes: the config's mesh section; one axis may be -1, the rest of the devices.
      devices: all of jax.devices() unless given.

    Raises:
      UserError: the sizes' product is not the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    shape = {name: int(getattr(sizes, name)) for name in MESH_AXES}
    text = ", ".join(f"mesh.{name}={size}" for name, size in shape.items())
    if any(size == 0 or size < -1 for size in shape.values()):
        raise UserError(f"{text}: a size must be a positive number, or -1 for the rest")
    rest = [name for name, size in shape.items() if size == -1]
    if len(rest) > 1:
        raise UserError(f"{text}: only one axis may be -1")
    given = math.prod(size for size in shape.values() if size != -1)
    if len(devices) % given or (not rest and given != len(devices)):
        raise UserError(
            f"{text}: the product does not divide into the {len(devices)} device(s) "
            "here; set one axis to -1 for the rest"
        )
    if rest:
        shape[rest[0]] = len(devices) // given
    return jax.make_mesh(
        tuple(shape.values()),
        MESH_AXES,
        axis_types=(AxisType.Auto,) * len(MESH_AXES),
        devices=devices,
    )


@contextlib.contextmanager
def context(mesh: Mesh) -> Iterator[None]:
    """Enters the mesh and the logical axis rules together."""
    with jax.set_mesh(mesh), networks.logical_rules(LOGICAL_AXIS_RULES):
        yield


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Rows are sharded over data and fsdp, other dims replicated."""
    return NamedSharding(mesh, P(BATCH_AXES))


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of an array that all devices have whole."""
    return NamedSharding(mesh, P())


def check_batch_divides(mesh: Mesh, batch: int, accumulate: int) -> None:
    """Checks that each device gets the same number of rows of each micro-batch.

    Raises:
      UserError: `batch` is not a multiple of devices x `accumulate`.
    """
    num_shards = mesh.shape["data"] * mesh.shape["fsdp"]
    if accumulate < 1 or batch < 1 or batch % (num_shards * accumulate):
        raise UserError(
            f"train.batch={batch} is not a multiple of mesh.data x mesh.fsdp x "
            f"train.accumulate = {mesh.shape['data']} x {mesh.shape['fsdp']} x "
            f"{accumulate}"
        )


def is_logical_axes(leaf: Any) -> bool:
    """Whether this is the logical axes of one parameter."""
    return isinstance(leaf, P)


def parameter_sharding(names: P, shape: tuple[int, ...], mesh: Mesh) -> NamedSharding:
    """The sharding of one parameter; dims that their axis does not divide: replicated.

    Args:
      names: a logical axis name (or None) for each dim.
      shape: the parameter's shape.
    """
    axes = (
        axis if axis and size % mesh.shape[axis] == 0 else None
        for _, size, axis in _dims(names, shape)
    )
    return NamedSharding(mesh, P(*axes))


def replicated_dims(logical_axes: Any, shapes: Any, mesh: Mesh) -> list[str]:
    """The dims that the rules would shard but the mesh does not divide, for the user.

    Args:
      logical_axes: a tree with the logical axes of each parameter.
      shapes: the same tree with their shapes.
    """
    leaves = zip(
        jax.tree.leaves(logical_axes, is_leaf=is_logical_axes),
        jax.tree.leaves(shapes),
        strict=True,
    )
    dims = {
        f"{name} ({size}) over {axis} ({mesh.shape[axis]})"
        for names, leaf in leaves
        for name, size, axis in _dims(names, leaf.shape)
        if axis and size % mesh.shape[axis]
    }
    return sorted(dims)


def _dims(names: P, shape: tuple[int, ...]) -> Iterator[tuple[str | None, int, Any]]:
    """The logical axis name, the size and the mesh axis of each dim."""
    rules = dict(LOGICAL_AXIS_RULES)
    for name, size in zip(names, shape, strict=True):
        yield name, size, rules[name] if name is not None else None


def to_devices(rows: dict, abstract_batch: dict) -> dict:
    """The rows of this process as global arrays, sharded as `abstract_batch` says.

    Their lengths are their own: those of `abstract_batch` are data.length's.
    """
    return {
        name: jax.make_array_from_process_local_data(
            leaf.sharding,
            np.asarray(rows[name], leaf.dtype),
            (leaf.shape[0], *rows[name].shape[1:]),
        )
        for name, leaf in abstract_batch.items()
    }


def rows_of_process(abstract_batch: dict) -> np.ndarray:
    """The rows of the global batch that this process loads, ascending [n].

    They need not be contiguous: the device order of a mesh follows the interconnect.
    """
    leaf = next(iter(abstract_batch.values()))
    indices = leaf.sharding.devices_indices_map(leaf.shape)
    rows = [
        np.arange(leaf.shape[0])[index[0]]
        for device, index in indices.items()
        if device.process_index == jax.process_index()
    ]
    return np.unique(np.concatenate(rows))
