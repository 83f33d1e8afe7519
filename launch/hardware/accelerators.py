"""Peak FLOP/s and memory of accelerators, from their makers' data sheets."""

from typing import NamedTuple

GIB = 2**30


class Chip(NamedTuple):
    """One device as JAX counts devices, which may be half of a chip."""

    flops: float  # dense bfloat16 FLOP/s
    hbm: int  # bytes


CHIPS = {
    "NVIDIA A100": Chip(312e12, 80 * GIB),
    "NVIDIA H100": Chip(989e12, 80 * GIB),
    "NVIDIA H200": Chip(989e12, 141 * GIB),
    "TPU v4": Chip(275e12, 32 * GIB),
    "TPU v5 lite": Chip(197e12, 16 * GIB),
    "TPU v5p": Chip(459e12, 95 * GIB),
    "TPU v5": Chip(459e12, 95 * GIB),
    "TPU v6 lite": Chip(918e12, 32 * GIB),
    "TPU7x": Chip(1153.5e12, 96 * GIB),  # two devices a chip
}
"""Prefix of `device_kind` -> its chip. A longer prefix comes before a shorter one."""


def find_chip(device_kind: str) -> Chip | None:
    """The chip of a JAX device kind; None if it is not in `CHIPS`."""
    matches = (chip for name, chip in CHIPS.items() if device_kind.startswith(name))
    return next(matches, None)
