"""All logits at once with XLA: the reference for the others."""

from dataclasses import dataclass

from research.networks.shared.dense_attention import dense_mask
from research.networks.transformer import kernels


@dataclass(frozen=True)
class Kernel(kernels.Kernel):
    """Supports everything, and keeps [B, H, L, M] probabilities for the gradient."""

    attention = "dense"
    features = tuple(kernels.FEATURES)

    def mask(self, inputs, head_width, dtype):
        return dense_mask(inputs)
