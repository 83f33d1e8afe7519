"""JAX's attention function with XLA's products, where no library has a kernel."""

from dataclasses import dataclass

from research.networks.transformer import kernels
from research.networks.transformer.library_attention import library_mask


@dataclass(frozen=True)
class Kernel(kernels.Kernel):
    """Attention by XLA, with masks in the format of cuDNN's; tests use it."""

    attention = "library"

    def mask(self, inputs, head_width, dtype):
        return library_mask(inputs, implementation="xla")
