"""The interval kernel for TPUs; elsewhere it is interpreted, for tests."""

from dataclasses import dataclass

from research.networks.transformer import kernels


@dataclass(frozen=True)
class Kernel(kernels.Kernel):
    """Supports every pattern."""

    attention = "interval"
    platforms = ("tpu",)
    is_interpreted = True
    features = ("relative", "dropout", "bias")
    preference = 1

    def mask(self, inputs, head_width, dtype):
        from research.networks.transformer.kernel_attention import interval_mask

        return interval_mask(inputs, interpret=kernels.platform() != "tpu")
