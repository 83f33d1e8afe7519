"""What the makers say of a chip: FLOP/s and memory, by device kind."""

from typing import NamedTuple

GIB = 2**30


class Chip(NamedTuple):
    """Of one device as JAX counts them, which may be half of a chip."""

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
"""The beginning of `device_kind` -> its chip, from the makers' data sheets."""


def of(kind: str) -> Chip | None:
    """The chip of a device kind, if it is known."""
    found = (chip for name, chip in CHIPS.items() if kind.startswith(name))
    return next(found, None)
