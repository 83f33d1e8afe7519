"""Prints the MiB that attention and its gradients need, with arguments and results.

python -m experiments.studies.attention_memory v5e:2x2

Each line has a pattern, and the MiB of the interval kernel at each length, then those
of dense attention: one row of bfloat16, compiled for one chip of the slice.
"""

import sys
from collections.abc import Sequence
from typing import Any

from launch.measure.tpu_topology import set_environment, topology_devices

HEADS, HEAD_WIDTH = 12, 64
RELATIVE_WIDTH = HEADS * HEAD_WIDTH
"""The width of XLNet's relative terms is that of the network."""
WINDOW = 64
"""Positions to each side, as in ModernBERT."""
LENGTHS = (512, 2048, 8192, 32768)
PATTERNS = (
    "causal",
    "full",
    f"full, a window of {WINDOW}",
    "permuted",
    "permuted, two intervals",
    "permuted, T5's bias",
    "permuted, XLNet's terms",
)


def main(topology: str) -> None:
    set_environment(topology)
    devices = topology_devices(topology)
    cases = [(length, is_dense) for is_dense in (False, True) for length in LENGTHS]
    for pattern in PATTERNS:
        cells = [mebibytes(devices, pattern, *case) for case in cases]
        print(" | ".join([pattern, *cells]), flush=True)


def mebibytes(devices: Sequence[Any], pattern: str, length: int, dense: bool) -> str:
    """The number, or that XLA refuses a program of this size."""
    # These import JAX, which reads the environment that `main` sets.
    import jax
    import jax.numpy as jnp

    from research.contract.batch import INTERVAL_ARRAYS
    from research.networks.shared.dense_attention import (
        AttentionInputs,
        dense_attention,
        dense_mask,
    )
    from research.networks.transformer.kernel_attention import interval_mask
    from research.networks.transformer.positions import t5
    from research.program.flops import peak_bytes

    kind = pattern.partition(",")[0]
    mesh = jax.make_mesh((1,), ("data",), devices=devices[:1])

    def loss(states, table, relative, group):
        inputs = AttentionInputs(
            group,
            group,
            kind if kind in ("causal", "full") else "general",
            bias=t5.Bias(table, one_way=False) if "bias" in pattern else None,
            window=WINDOW if "window" in pattern else 0,
        )
        if dense:
            out = dense_attention(*states, dense_mask(inputs), relative=relative)
        else:
            mask = interval_mask(inputs, interpret=False)
            out = mask.attend(*states, relative=relative)
        return jnp.sum(out.astype(jnp.float32))

    def shape(dims, dtype):
        where = jax.NamedSharding(mesh, jax.P())
        return jax.ShapeDtypeStruct(dims, dtype, sharding=where)

    state = shape((1, length, HEADS, HEAD_WIDTH), jnp.bfloat16)
    relative = None
    if "terms" in pattern:
        widths = (HEADS, RELATIVE_WIDTH), (RELATIVE_WIDTH,)
        relative = [shape((1, length, *dims), jnp.bfloat16) for dims in widths]
    table = shape((t5.NUM_BUCKETS, HEADS), jnp.float32)
    names = ("segment", "rank", "reach", "position")
    if "intervals" in pattern:
        names += INTERVAL_ARRAYS
    group = dict.fromkeys(names, shape((1, length), jnp.int32))
    gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
    with jax.set_mesh(mesh):
        lowered = gradient.lower((state,) * 3, table, relative, group)
        try:
            compiled = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return "-"
    return f"{peak_bytes(compiled) / 2**20:,.0f}"


if __name__ == "__main__":
    main(*sys.argv[1:])
