"""Sines and cosines of the position, added to embeddings (Vaswani et al. 2017)."""

from dataclasses import dataclass

from research.networks.shared.positions import sinusoids
from research.networks.transformer import positions


@dataclass(frozen=True)
class Scheme(positions.Scheme):
    """A scheme without parameters."""

    def embed(self, embedding, x_BLE, position_BL, length):
        return x_BLE + sinusoids(position_BL, x_BLE.shape[-1])
