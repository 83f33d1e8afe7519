"""Prints what the forms of the loss need, with gradients, on one chip and on four.

python -m experiments.studies.loss_memory v5e:2x2

Each line has the rows of the table, the form, and MiB of one device: the most memory,
arguments and results included, what is moved to and from it, and what is sent to the
others. Four devices divide the table by its rows (mesh.tensor=4).
"""

import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from launch.measure.tpu_topology import set_environment, topology_devices
from research.distributed.options import MeshOptions

ROWS, LENGTH, WIDTH = 32, 512, 768
SIZES = (32768, 131072)
FORMS = ("dense", "chunked", "fused")


def main(topology: str) -> None:
    set_environment(topology)
    devices = topology_devices(topology)
    for size in SIZES:
        for form in FORMS:
            cells = [*figures(devices[:1], size, form), *figures(devices, size, form)]
            print(" | ".join([f"{size:,}", form, *cells]), flush=True)


def figures(devices: Sequence[Any], size: int, form: str) -> list[str]:
    """Peak, moved and (of several devices) sent MiB; that XLA refuses a program."""
    # These import JAX, which reads the environment that `main` sets.
    import jax
    import jax.numpy as jnp

    from launch.measure import hlo_text
    from launch.measure.hbm_traffic import hbm_bytes
    from launch.measure.hlo_collectives import count_collectives
    from research.distributed import sharding
    from research.objectives.losses.cross_entropy import cross_entropy
    from research.program.flops import peak_bytes

    sizes = {"data": 1, "fsdp": 1, "tensor": len(devices)}
    mesh = sharding.make_mesh(MeshOptions(**sizes), devices)

    def loss(feature, table, bias, target, weight):
        readout = SimpleNamespace(feature=feature, table=table, bias=bias, size=size)
        return cross_entropy(readout, target, weight, implementation=form)[0].total

    def shape(dims, dtype, *axes):
        where = jax.NamedSharding(mesh, jax.P(*axes))
        return jax.ShapeDtypeStruct(dims, dtype, sharding=where)

    arguments = (
        shape((ROWS, LENGTH, WIDTH), jnp.bfloat16),
        shape((size, WIDTH), jnp.float32, "tensor"),
        shape((size,), jnp.float32, "tensor"),
        shape((ROWS, LENGTH), jnp.int32),
        shape((ROWS, LENGTH), jnp.float32),
    )
    gradient = jax.jit(
        jax.grad(loss, argnums=(0, 1, 2)),
        out_shardings=tuple(argument.sharding for argument in arguments[:3]),
    )
    count = 2 if len(devices) == 1 else 3
    with sharding.context(mesh):
        try:
            compiled = gradient.lower(*arguments).compile()
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return ["does not fit"] + ["–"] * (count - 1)
    module = hlo_text.parse(compiled.as_text())
    sent = sum(each.sent_bytes for each in count_collectives(module).values())
    found = (peak_bytes(compiled), hbm_bytes(module), sent)
    return [f"{number / 2**20:,.0f}" for number in found[:count]]


if __name__ == "__main__":
    main(*sys.argv[1:])
