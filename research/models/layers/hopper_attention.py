"""Attention by the interval kernel for NVIDIA's Hopper.

Every pattern serves, dropout and cross-attention, but T5's bias does not. The mask is
that of the kernel for TPUs (`research.models.layers.kernel_attention`).
"""

# B batch, L queries, M keys, H heads, K head width, P scored positions

from functools import partial
from typing import NamedTuple

import jax

from research.errors import UserError
from research.kernels.counter_dropout import dropout_seeds
from research.kernels.hopper.attention import DTYPES, TILES, hopper_attention
from research.kernels.hopper.block import Settings
from research.kernels.intervals import Intervals
from research.kernels.plan import Plan, make_plan
from research.models.layers.dense_attention import AttentionInputs
from research.models.layers.kernel_attention import (
    key_intervals,
    on_each_device,
    scored_intervals,
)

HOPPER = "9."
"""How the compute capabilities of Hopper begin."""


class HopperMask(NamedTuple):
    """The mask as the kernel takes it."""

    intervals: Intervals  # of the queries
    num_keys: int
    settings: Settings
    plan: Plan  # of all that precedes

    def at(self, scored_BP: jax.Array) -> "HopperMask":
        """The same for the scored queries alone."""
        intervals = scored_intervals(self.intervals, scored_BP)
        return _with_plan(intervals, self.num_keys, self.settings)

    def attend(
        self,
        query_BLHK: jax.Array,
        key_BMHK: jax.Array,
        value_BMHK: jax.Array,
        *,
        dropout_rate: float = 0.0,
        dropout_key: jax.Array | None = None,
    ) -> jax.Array:
        """[B, L, H, K]: softmax attention, on each device of the rows and heads it has.

        Args:
          query_BLHK: already scaled.
          dropout_rate: of the probabilities; above 0 it needs a key.

        Raises:
          UserError: the kernel has none of this dtype.
        """
        if query_BLHK.dtype not in DTYPES:
            raise _refused(f"needs model.dtype bfloat16, not {query_BLHK.dtype}")
        settings, seeds_BH = self.settings._replace(dropout=dropout_rate), None
        if dropout_rate:
            rows, _, heads, _ = query_BLHK.shape
            seeds_BH = dropout_seeds(dropout_key, rows, heads)
        attend = partial(hopper_attention, settings)
        states = query_BLHK, key_BMHK, value_BMHK
        others = [(self.plan, ("batch",)), (seeds_BH, ("batch", "heads"))]
        return on_each_device(attend, states, others)


def hopper_mask(inputs: AttentionInputs, *, head_width: int) -> HopperMask:
    """The mask of all queries and keys, the same in every layer.

    Raises:
      UserError: the kernel has no such heads, no bias by position, or the GPU is none
        of Hopper's.
    """
    assert inputs.mems_segment is None, "mems need relative positions"
    # A device that is compiled for need not be there.
    capability = getattr(jax.devices()[0], "compute_capability", HOPPER)
    if not capability.startswith(HOPPER):
        raise _refused(f"needs compute capability 9 (Hopper), not {capability}")
    if inputs.bias_table is not None:
        raise _refused("has no bias by position (model.position t5)")
    if head_width not in TILES:
        widths = " or ".join(map(str, TILES))
        raise _refused(f"needs heads of width {widths}, not {head_width}")
    settings = Settings(TILES[head_width])
    num_keys = inputs.key["segment"].shape[1]
    return _with_plan(key_intervals(inputs), num_keys, settings)


def _with_plan(intervals, num_keys, settings) -> HopperMask:
    plan = make_plan(intervals, num_keys, settings.tiles)
    return HopperMask(intervals, num_keys, settings, plan)


def _refused(what: str) -> UserError:
    return UserError(
        f"model.attention interval on a GPU {what}; set model.attention=dense"
    )
