"""Published rates and memory of accelerators, from their makers' data sheets."""

from typing import NamedTuple

GIB = 2**30


class Chip(NamedTuple):
    """One device as JAX counts them, which may be half of a chip."""

    flops: float  # dense bfloat16 FLOP/s
    hbm: int  # bytes
    hbm_rate: float  # bytes a second, read or written
    link_rate: float  # bytes a second that it sends over all links while it receives as
    # many: half of the bidirectional rate in data sheets


CHIPS = {
    # NVIDIA's data sheets of the A100 (SXM, 80 GB), H100 (SXM) and H200 (SXM); NVLink
    "NVIDIA A100": Chip(312e12, 80 * GIB, 2.039e12, 300e9),
    "NVIDIA H100": Chip(989e12, 80 * GIB, 3.35e12, 450e9),
    "NVIDIA H200": Chip(989e12, 141 * GIB, 4.8e12, 450e9),
    # docs.cloud.google.com/tpu/docs/v4; links: six of 50 GB/s (Jouppi et al. 2023, TPU
    # v4, table 4)
    "TPU v4": Chip(275e12, 32 * GIB, 1.2e12, 300e9),
    # docs.cloud.google.com/tpu/docs/v5e, v5p, v6e, tpu7x: peak compute, HBM bandwidth
    # and bidirectional ICI bandwidth "per chip"
    "TPU v5 lite": Chip(197e12, 16 * GIB, 819e9, 200e9),
    "TPU v5p": Chip(459e12, 95 * GIB, 2.765e12, 600e9),
    "TPU v5": Chip(459e12, 95 * GIB, 2.765e12, 600e9),
    "TPU v6 lite": Chip(918e12, 32 * GIB, 1.638e12, 400e9),
    # Two devices a chip: half of its compute and memory. Either may use all its links.
    "TPU7x": Chip(1153.5e12, 96 * GIB, 3.69e12, 600e9),
}
"""Prefix of `device_kind` -> its chip. A longer prefix comes before a shorter one."""


def find_chip(device_kind: str) -> Chip | None:
    """The chip of a JAX device kind; None if it is not in `CHIPS`."""
    matches = (chip for name, chip in CHIPS.items() if device_kind.startswith(name))
    return next(matches, None)
