"""JAX's attention function with XLA's products, where no library has a kernel."""

from dataclasses import dataclass

from research.networks.transformer import kernels
from research.networks.transformer.library_attention import library_mask


@dataclass(frozen=True)
class Kernel(kernels.Kernel):
    """Has the format of cuDNN's masks, for tests."""

    attention = "library"

    def mask(self, inputs, head_width, dtype):
        return library_mask(inputs, implementation="xla")
