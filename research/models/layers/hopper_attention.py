"""Attention by the interval kernel for NVIDIA's Hopper."""

# B batch, L queries, M keys, H heads, K head width

from typing import Any

import jax

from research.errors import UserError
from research.kernels.hopper.attention import (
    BIAS_TILES,
    DTYPES,
    TILES,
    hopper_attention,
)
from research.kernels.plan import Settings
from research.models.layers.dense_attention import AttentionInputs
from research.models.layers.kernel_attention import IntervalMask, Kernel, interval_mask

HOPPER = "9."
"""How the compute capabilities of Hopper begin."""


def hopper_mask(inputs: AttentionInputs, *, head_width: int) -> IntervalMask:
    """The mask of all queries and keys, the same in every layer.

    Raises:
      UserError: the kernel has no such heads, or the GPU is none of Hopper's.
    """
    # A device that is compiled for need not be there.
    capability = getattr(jax.devices()[0], "compute_capability", HOPPER)
    if not capability.startswith(HOPPER):
        raise _refused(f"compute capability 9 (Hopper), not {capability}")
    if head_width not in TILES:
        widths = " or ".join(map(str, TILES))
        raise _refused(f"heads of width {widths}, not {head_width}")
    tiles = TILES[head_width] if inputs.bias_table is None else BIAS_TILES
    return interval_mask(inputs, Kernel(_attend, lambda *_: tiles))


def _attend(settings: Settings, query_BLHK: jax.Array, *others: Any) -> jax.Array:
    """`hopper_attention`.

    Raises:
      UserError: it has none of this dtype.
    """
    if query_BLHK.dtype not in DTYPES:
        raise _refused(f"model.dtype bfloat16, not {query_BLHK.dtype}")
    return hopper_attention(settings, query_BLHK, *others)


def _refused(needed: str) -> UserError:
    return UserError(
        f"model.attention interval on a GPU needs {needed}; set model.attention=dense"
    )
