"""The resources of each job: hosts, and CPU cores, GPUs or TPU chips on each host."""

import dataclasses

from launch.measure.tpu_slice import EXAMPLES, TpuSlice, parse_tpu_slice
from research.contract.errors import UserError

MIN_VALUES = {"hosts": 1, "cpus": 1, "gpus": 0}


@dataclasses.dataclass(frozen=True)
class Resources:
    """The resources of a job. A TPU slice determines `hosts`.

    Raises:
      UserError: a number is too small, or the slice is malformed or given beside
        hosts or GPUs.
    """

    hosts: int = 1
    cpus: int = 1  # on each host
    gpus: int = 0  # on each host
    slice: str = ""  # a TPU slice as `palimpsest compile` names it, "v5e:16x16"

    def __post_init__(self):
        for name, least in MIN_VALUES.items():
            if getattr(self, name) < least:
                raise UserError(f"--{name}={getattr(self, name)}: at least {least}")
        if not self.slice:
            return
        if not self.tpu_slice:
            raise UserError(
                f"--slice={self.slice}: expected a TPU slice such as {EXAMPLES}"
            )
        if self.gpus or self.hosts > 1:
            raise UserError(
                f"--slice={self.slice} determines the number of hosts and has no GPUs; "
                "leave --hosts and --gpus out"
            )
        object.__setattr__(self, "hosts", self.tpu_slice.num_hosts)

    @property
    def tpu_slice(self) -> TpuSlice | None:
        return parse_tpu_slice(self.slice)

    @property
    def chips(self) -> int:
        """The number of TPU chips of a host."""
        return self.tpu_slice.chips_per_host if self.slice else 0
