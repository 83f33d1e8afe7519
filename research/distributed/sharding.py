"""The one table from logical axis names to mesh axes, and all that follows from it."""

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from research import models
from research.errors import UserError

AXES = ("data", "fsdp", "tensor")
BATCH = ("data", "fsdp")

RULES = (
    ("batch", BATCH),
    ("length", None),
    ("layers", None),
    ("vocab", "tensor"),
    ("embed", "fsdp"),
    ("heads", "tensor"),
    ("feedforward", "tensor"),
)


def make_mesh(sizes: Any, devices: Sequence[jax.Device] | None = None) -> Mesh:
    """A mesh of axes data, fsdp, tensor over all devices.

    Args:
      sizes: the config's mesh section; one axis may be -1, the rest of the devices.
      devices: all of jax.devices() unless given.

    Raises:
      UserError: the sizes' product is not the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    shape = {name: int(sizes[name]) for name in AXES}
    text = ", ".join(f"mesh.{name}={size}" for name, size in shape.items())
    if any(size == 0 or size < -1 for size in shape.values()):
        raise UserError(f"{text}: a size is a positive number, or -1 for the rest")
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
        AXES,
        axis_types=(AxisType.Auto,) * len(AXES),
        devices=devices,
    )


@contextlib.contextmanager
def context(mesh: Mesh) -> Iterator[None]:
    """The mesh and the logical rules, entered together."""
    with jax.set_mesh(mesh), models.logical_rules(RULES):
        yield


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Rows over data and fsdp, everything else whole."""
    return NamedSharding(mesh, P(BATCH))


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, P())


def rows_divide(mesh: Mesh, batch: int, accumulate: int) -> None:
    """Checks that each device gets the same number of rows of each micro-batch.

    Raises:
      UserError: it does not come out even.
    """
    ways = mesh.shape["data"] * mesh.shape["fsdp"]
    if accumulate < 1 or batch < 1 or batch % (ways * accumulate):
        raise UserError(
            f"train.batch={batch} is not a multiple of mesh.data x mesh.fsdp x "
            f"train.accumulate = {mesh.shape['data']} x {mesh.shape['fsdp']} x "
            f"{accumulate}"
        )


def is_axes(leaf: Any) -> bool:
    """Whether this is the logical axes of one parameter."""
    return isinstance(leaf, P)


def parameter_sharding(names: P, shape: tuple[int, ...], mesh: Mesh):
    """The sharding of one parameter; a dim that its axis does not divide stays whole.

    Args:
      names: a logical name (or None) for each dim.
      shape: the parameter's shape.
    """
    table = dict(RULES)
    spec = []
    for name, size in zip(names, shape, strict=True):
        axis = table[name] if name is not None else None
        spec.append(axis if axis and size % mesh.shape[axis] == 0 else None)
    return NamedSharding(mesh, P(*spec))


def whole_dims(axes: Any, shapes: Any, mesh: Mesh) -> list[str]:
    """The dims that RULES would split and the mesh does not divide, to be reported."""
    table, found = dict(RULES), set()
    leaves = zip(
        jax.tree.leaves(axes, is_leaf=is_axes),
        jax.tree.leaves(shapes),
        strict=True,
    )
    for names, leaf in leaves:
        for name, size in zip(names, leaf.shape, strict=True):
            axis = table[name] if name is not None else None
            if axis and size % mesh.shape[axis]:
                found.add(f"{name} ({size}) over {axis} ({mesh.shape[axis]})")
    return sorted(found)
