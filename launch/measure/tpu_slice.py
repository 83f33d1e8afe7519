"""TPU slices by name: "v5e:16x16" is a generation and a topology of chips."""

import math
import re
from typing import NamedTuple

EXAMPLES = "v4:2x2x1, v5e:4x4, v5e:16x16, v5p:4x4x8, v6e:16x16, tpu7x:2x2x1"
"""Examples of names, for error messages."""

SLICE_NAME = re.compile(r"(v4|v5e|v5p|v6e|tpu7x):([1-9]\d*(?:x[1-9]\d*){1,2})")

SINGLE_HOST_TOPOLOGIES = {"v5e": ("1x1", "2x2", "2x4"), "v6e": ("1x1", "2x2", "2x4")}
"""Generation -> topologies of one host, whose number of chips need not be 4."""
CHIPS_PER_HOST = 4
"""Chips per host of every other slice."""


class TpuSlice(NamedTuple):
    """The generation and topology of a slice."""

    generation: str  # "v5e" of "v5e:16x16"
    topology: str  # "16x16" of "v5e:16x16"

    @property
    def num_chips(self) -> int:
        return math.prod(map(int, self.topology.split("x")))

    @property
    def num_hosts(self) -> int:
        if self.topology in SINGLE_HOST_TOPOLOGIES.get(self.generation, ()):
            return 1
        return math.ceil(self.num_chips / CHIPS_PER_HOST)

    @property
    def chips_per_host(self) -> int:
        return self.num_chips // self.num_hosts


def parse_tpu_slice(name: str) -> TpuSlice | None:
    """The slice of a name, such as "v5e:16x16"; None if it is not a slice's name.

    Whether such a slice exists is not checked.
    """
    match = SLICE_NAME.fullmatch(name)
    return TpuSlice(*match.groups()) if match else None
