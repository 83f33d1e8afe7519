"""Attention by the interval kernel: its mask, and its call on a mesh.

Every pattern serves, with T5's bias, dropout, packing, and other queries than keys; so
does cross-attention, in which keys of the query's segment are an interval. Relative
terms (Transformer-XL's and XLNet's, which mems need) are left to the dense path: sorted
keys have no cheap shift, and the products of sines and cosines would cost several times
what attention does.
"""

# B batch, L queries, M keys, H heads, K head width, P scored positions or pieces

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from research.kernels.counter_dropout import dropout_seeds
from research.kernels.interval_attention import interval_attention
from research.kernels.intervals import Intervals, run_intervals, sorted_intervals
from research.kernels.plan import Plan, Settings, default_tiles, make_plan
from research.models.layers.dense import gather_positions
from research.models.layers.dense_attention import AttentionInputs
from research.models.layers.positions import bucket_steps


class IntervalMask(NamedTuple):
    """The mask and T5's bias as the kernel takes them."""

    intervals: Intervals  # of the queries
    num_keys: int
    positions: tuple[jax.Array, jax.Array] | None  # of queries and keys, for the bias
    bias: jax.Array | None  # [steps, H] float32, of those in `settings`
    settings: Settings
    plan: Plan  # of all that precedes

    def at(self, scored_BP: jax.Array) -> "IntervalMask":
        """The same for the scored queries alone."""
        index = partial(gather_positions, scored_BP=scored_BP)
        start, stop, key_order = self.intervals
        intervals = Intervals(index(start), index(stop), key_order)
        positions = self.positions
        if positions is not None:
            positions = index(positions[0]), positions[1]
        return _with_plan(intervals, self.num_keys, positions, self.bias, self.settings)

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
        """
        attend, seeds_BH = partial(interval_attention, self.settings), None
        if dropout_rate:
            attend = partial(
                interval_attention, self.settings._replace(dropout=dropout_rate)
            )
            rows, _, heads, _ = query_BLHK.shape
            seeds_BH = dropout_seeds(dropout_key, rows, heads)
        states = query_BLHK, key_BMHK, value_BMHK
        arguments = *states, self.bias, self.plan, seeds_BH
        mesh = jax.sharding.get_abstract_mesh()
        if mesh.empty:
            return attend(*arguments)
        rows, heads = nn.logical_to_mesh_axes(("batch", "heads"))
        rows = _axes_that_divide(mesh, rows, query_BLHK.shape[0])
        heads = _axes_that_divide(mesh, heads, key_BMHK.shape[2])
        states = jax.P(rows, None, heads)
        return jax.shard_map(
            attend,
            in_specs=(
                *(states,) * 3,
                jax.P(None, heads),
                jax.P(rows),
                jax.P(rows, heads),
            ),
            out_specs=states,
            check_vma=False,  # a kernel's outputs do not say on what they depend
        )(*arguments)


def interval_mask(inputs: AttentionInputs, *, interpret: bool) -> IntervalMask:
    """The mask of all queries and keys, the same in every layer.

    Keys are sorted, unless the pattern is full or causal self-attention: then they are
    in order already, as the positions of a segment are consecutive.

    Args:
      interpret: the kernels run as JAX operations, on any device.
    """
    assert inputs.mems_segment is None, "mems need relative positions"
    query, key, pattern = inputs.query, inputs.key, inputs.pattern
    shape, num_keys = query["segment"].shape, key["segment"].shape[1]
    if "rank" in key and pattern != "general" and num_keys == shape[1]:
        intervals = run_intervals(key["segment"], causal=pattern == "causal")
    else:
        reach, rank = query.get("reach"), key.get("rank")
        if pattern != "general":
            factor = int(pattern == "causal")  # the index; else 0
            reach, rank = (
                factor * jax.lax.broadcasted_iota(jnp.int32, x["segment"].shape, 1)
                for x in (query, key)
            )
        segments = query["segment"], key["segment"]
        intervals = sorted_intervals(segments[0], reach, segments[1], rank)
    positions = bias_PH = None
    bounds: tuple[int, ...] = ()
    if inputs.bias_table is not None:
        bounds, buckets = bucket_steps(causal=pattern == "causal")
        bias_PH = inputs.bias_table.astype(jnp.float32)[np.array(buckets)]
        positions = query["position"], key["position"]
    settings = Settings(default_tiles(shape[1], num_keys), bounds, interpret)
    return _with_plan(intervals, num_keys, positions, bias_PH, settings)


def _with_plan(intervals, num_keys, positions, bias_PH, settings) -> IntervalMask:
    tiles = default_tiles(intervals.start.shape[1], num_keys)
    settings = settings._replace(tiles=tiles)
    plan = make_plan(intervals, num_keys, tiles, positions)
    return IntervalMask(intervals, num_keys, positions, bias_PH, settings, plan)


def _axes_that_divide(mesh: Any, axes: Any, size: int) -> Any:
    """The mesh axes if they divide the size, else None: each device has all of it."""
    names = () if axes is None else (axes,) if isinstance(axes, str) else axes
    return axes if size % math.prod(mesh.shape[name] for name in names) == 0 else None
