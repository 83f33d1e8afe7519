"""Prints the MiB that attention and its gradients need, with arguments and results.

python -m docs.attention_memory v5e:2x2

Each line has the pattern, the length, and the MiB of the interval kernel and of dense
attention: one row of bfloat16, compiled for one chip of the slice.
"""

import sys
from collections.abc import Sequence
from typing import Any

from launch.hardware.tpu_topology import set_environment, topology_devices

HEADS, HEAD_WIDTH = 12, 64
LENGTHS = (512, 2048, 8192, 32768)
CASES = [
    *(("causal", length) for length in LENGTHS),
    *(("full", length) for length in LENGTHS),
    *(("permuted", length) for length in LENGTHS[:2]),
    ("permuted, T5's bias", LENGTHS[1]),
]
"""On v5e; on others the second alone. XLA takes minutes to compile a sort of long rows
for a TPU, so these are left out."""


def main(topology: str) -> None:
    set_environment(topology)
    devices = topology_devices(topology)
    cases = CASES if topology.startswith("v5e") else CASES[1:2]
    for pattern, length in cases:
        cells = [mebibytes(devices, pattern, length, dense) for dense in (False, True)]
        print(" | ".join([pattern, str(length), *cells]), flush=True)


def mebibytes(devices: Sequence[Any], pattern: str, length: int, dense: bool) -> str:
    """The number, or that XLA refuses a program of this size."""
    # These import JAX, which reads the environment that `main` sets.
    import jax
    import jax.numpy as jnp

    from research.models.layers.dense_attention import (
        AttentionInputs,
        dense_attention,
        dense_mask,
    )
    from research.models.layers.kernel_attention import interval_mask
    from research.models.layers.positions import NUM_BUCKETS
    from research.run.flops import peak_bytes

    mesh = jax.make_mesh((1,), ("data",), devices=devices[:1])

    def loss(states, table, group):
        inputs = AttentionInputs(
            group,
            group,
            pattern if pattern in ("causal", "full") else "general",
            bias_table=table if "bias" in pattern else None,
        )
        if dense:
            out = dense_attention(*states, dense_mask(inputs))
        else:
            out = interval_mask(inputs, interpret=False).attend(*states)
        return jnp.sum(out.astype(jnp.float32))

    def shape(dims, dtype):
        where = jax.NamedSharding(mesh, jax.P())
        return jax.ShapeDtypeStruct(dims, dtype, sharding=where)

    state = shape((1, length, HEADS, HEAD_WIDTH), jnp.bfloat16)
    table = shape((NUM_BUCKETS, HEADS), jnp.float32)
    names = ("segment", "rank", "reach", "position")
    group = dict.fromkeys(names, shape((1, length), jnp.int32))
    gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
    with jax.set_mesh(mesh):
        lowered = gradient.lower((state,) * 3, table, group)
        try:
            compiled = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return "does not fit"
    return f"{peak_bytes(compiled) / 2**20:,.0f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
