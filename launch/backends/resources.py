"""What a task needs of an engine: hosts, and on each of them cores, GPUs or a TPU."""

import dataclasses
import math
import re

from research.errors import UserError

ONE_HOST = {"v5e": ("1x1", "2x2", "2x4"), "v6e": ("1x1", "2x2", "2x4")}
"""Slices of one machine that may have another number of chips than 4."""
CHIPS = 4
"""Chips of a machine in every other slice."""
SLICE = re.compile(r"(v4|v5e|v5p|v6e|tpu7x):(\d+(?:x\d+){1,2})")


@dataclasses.dataclass(frozen=True)
class Need:
    """What each task is given.

    Raises:
      UserError: numbers or a slice that cannot be.
    """

    hosts: int = 1
    cpus: int = 1  # on each host
    gpus: int = 0  # on each host
    slice: str = ""  # a TPU slice as launch.compile names it, "v5e:16x16"

    def __post_init__(self):
        for name, least in {"hosts": 1, "cpus": 1, "gpus": 0}.items():
            if getattr(self, name) < least:
                raise UserError(f"--{name}={getattr(self, name)}: at least {least}")
        if not self.slice:
            return
        found = SLICE.fullmatch(self.slice)
        if not found:
            raise UserError(
                f"--slice={self.slice}: it is a TPU slice such as v4:2x2x1, v5e:16x16, "
                "v5p:4x4x8, v6e:16x16, tpu7x:2x2x1"
            )
        if self.gpus or self.hosts > 1:
            raise UserError(
                f"--slice={self.slice} says how many hosts there are, and has no GPUs; "
                "leave --hosts and --gpus out"
            )
        chips = math.prod(map(int, self.topology.split("x")))
        single = self.topology in ONE_HOST.get(self.generation, ())
        hosts = 1 if single else math.ceil(chips / CHIPS)
        object.__setattr__(self, "hosts", hosts)

    @property
    def generation(self) -> str:
        """ "v5e" of "v5e:16x16"."""
        return self.slice.partition(":")[0]

    @property
    def topology(self) -> str:
        """ "16x16" of "v5e:16x16"."""
        return self.slice.partition(":")[2]

    @property
    def chips(self) -> int:
        """TPU chips of a host."""
        if not self.slice:
            return 0
        return math.prod(map(int, self.topology.split("x"))) // self.hosts
