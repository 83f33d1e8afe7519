"""Attention by an interval kernel: its mask, and its call on a mesh.

It supports every pattern, T5's bias, dropout, packing, mems, queries that are not keys,
and cross-attention, in which the keys of the query's segment are an interval. Relative
terms of Transformer-XL and XLNet are a second product in the logits, since sorted keys
cannot be shifted cheaply: at the base size it is 12 times as wide as the product of
queries and keys. Only the kernel for TPUs supports them.
"""

# B batch, L queries, M keys, H heads, K head width, F width of relative terms, P scored
# positions or steps of the bias

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.kernels.counter_dropout import dropout_seeds
from research.kernels.interval_attention import interval_attention
from research.kernels.intervals import Intervals, run_intervals, sorted_intervals
from research.kernels.plan import (
    Plan,
    Settings,
    Tiles,
    default_tiles,
    make_plan,
)
from research.networks.shared.dense import gather_positions
from research.networks.shared.dense_attention import AttentionInputs


class Program(NamedTuple):
    """An interval kernel for one kind of device."""

    attend: Callable[..., jax.Array]  # takes what `interval_attention` takes
    choose_tiles: Callable[[int, int], Tiles]  # for numbers of queries and keys


class IntervalMask(NamedTuple):
    """The mask and T5's bias in the format of the kernel."""

    program: Program
    intervals: Intervals  # of the queries
    num_keys: int
    positions: tuple[jax.Array, jax.Array] | None  # of queries and keys, for the bias
    bias: jax.Array | None  # [steps, H] float32, of those in `settings`
    settings: Settings
    plan: Plan  # of all fields above

    def at(self, scored_BP: jax.Array) -> "IntervalMask":
        """The mask for only the scored queries."""
        intervals = scored_intervals(self.intervals, scored_BP)
        positions = self.positions
        if positions is not None:
            positions = gather_positions(positions[0], scored_BP), positions[1]
        return _with_plan(self._replace(intervals=intervals, positions=positions))

    def attend(
        self,
        query_BLHK: jax.Array,
        key_BMHK: jax.Array,
        value_BMHK: jax.Array,
        *,
        relative: tuple[jax.Array, jax.Array] | None = None,
        dropout_rate: float = 0.0,
        dropout_key: jax.Array | None = None,
    ) -> jax.Array:
        """[B, L, H, K]: softmax attention, on each device for its rows and heads.

        Args:
          query_BLHK: already scaled.
          relative: optional factors q_rel [B, L, H, F] and k_rel [B, M, F] of extra
            logits q_rel @ k_rel; no gradient flows to k_rel.
          dropout_rate: dropout rate of the probabilities; above 0 it needs a key.
        """
        settings, seeds_BH = self.settings._replace(dropout=dropout_rate), None
        if dropout_rate:
            rows, _, heads, _ = query_BLHK.shape
            seeds_BH = dropout_seeds(dropout_key, rows, heads)
        attend = partial(self.program.attend, settings)
        states = query_BLHK, key_BMHK, value_BMHK
        others = [
            (self.bias, (None, "heads")),
            (self.plan, ("batch",)),
            (seeds_BH, ("batch", "heads")),
        ]
        if relative is not None:
            dims = ("batch", None, "heads"), ("batch",)
            others += zip(relative, dims, strict=True)
        return on_each_device(attend, states, others)


def interval_mask(
    inputs: AttentionInputs,
    program: Program | None = None,
    *,
    interpret: bool = False,
) -> IntervalMask:
    """The mask of all queries and keys, the same in every layer.

    Args:
      program: None: the kernel for TPUs.
      interpret: run the kernels as JAX operations, on any device.
    """
    query, key, mems = inputs.query, inputs.key, inputs.mems_segment
    intervals, num_keys = key_intervals(inputs), key["segment"].shape[1]
    num_keys += 0 if mems is None else mems.shape[1]
    positions = bias_PH = None
    bounds: tuple[int, ...] = ()
    if inputs.bias is not None:
        bounds, bias_PH = inputs.bias.steps()
        positions = query["position"], key["position"]
    settings = Settings(Tiles(0, 0), bounds, interpret)  # tiles follow
    own = intervals, num_keys, positions, bias_PH, settings
    of_tpus = Program(interval_attention, default_tiles)
    return _with_plan(IntervalMask(program or of_tpus, *own, None))


def _with_plan(mask: IntervalMask) -> IntervalMask:
    """The mask with the tiles and the plan of its queries."""
    num_queries = mask.intervals.each[0].start.shape[1]
    tiles = mask.program.choose_tiles(num_queries, mask.num_keys)
    plan = make_plan(mask.intervals, mask.num_keys, tiles, mask.positions)
    lengths = num_queries, mask.num_keys
    settings = mask.settings._replace(tiles=tiles, lengths=lengths)
    return mask._replace(settings=settings, plan=plan)


def key_intervals(inputs: AttentionInputs) -> Intervals:
    """The intervals of keys of each query.

    Keys are sorted, except in full or causal self-attention, where they are already in
    order, since the positions of a segment are consecutive. Mems are sorted with the
    keys, since any of them may be padding.
    """
    query, key, pattern = inputs.query, inputs.key, inputs.pattern
    mems_segment = inputs.mems_segment
    lengths = {group["segment"].shape[1] for group in (query, key)}
    is_self = "rank" in key and len(lengths) == 1
    if is_self and pattern != "general" and mems_segment is None:
        causal = pattern == "causal"
        return run_intervals(key["segment"], causal=causal, window=inputs.window)
    assert not inputs.window or pattern == "causal", "windows are in array order"
    if pattern == "general":
        ranks, rank = [(query.get("low"), query["reach"])], key["rank"]
        if "reach2" in query:
            ranks.append((query.get("low2"), query["reach2"]))
    else:
        factor = int(pattern == "causal")  # the index; else 0
        reach, rank = (
            factor * jax.lax.broadcasted_iota(jnp.int32, x["segment"].shape, 1)
            for x in (query, key)
        )
        ranks = [(None, reach)]
    return sorted_intervals(
        query["segment"],
        ranks,
        key["segment"],
        rank,
        mems_segment,
        window=inputs.window,
    )


def scored_intervals(intervals: Intervals, scored_BP: jax.Array) -> Intervals:
    """The intervals of only the scored queries."""
    index = partial(gather_positions, scored_BP=scored_BP)
    own = jax.tree.map(index, intervals._replace(key_order=None))
    return own._replace(key_order=intervals.key_order)


def on_each_device(
    attend: Callable[..., jax.Array],
    states: Sequence[jax.Array],
    others: Sequence[tuple[Any, tuple[str | None, ...]]],
) -> jax.Array:
    """`attend(*states, *others)`, on each device for its rows and heads.

    Args:
      states: query [B, L, H, K], key and value [B, M, H, K].
      others: other arguments, each with the names of its leading dims: "batch",
        "heads".
    """
    mesh = jax.sharding.get_abstract_mesh()
    arguments = *states, *(argument for argument, _ in others)
    if mesh.empty:
        return attend(*arguments)
    rows, heads = nn.logical_to_mesh_axes(("batch", "heads"))
    rows = _axes_that_divide(mesh, rows, states[0].shape[0])
    heads = _axes_that_divide(mesh, heads, states[1].shape[2])
    axes = {"batch": rows, "heads": heads, None: None}
    specs = [jax.P(*(axes[dim] for dim in dims)) for _, dims in others]
    of_states = jax.P(rows, None, heads)
    return jax.shard_map(
        attend,
        in_specs=(*(of_states,) * 3, *specs),
        out_specs=of_states,
        check_vma=False,  # kernels do not declare how their outputs vary
    )(*arguments)


def _axes_that_divide(mesh: Any, axes: Any, size: int) -> Any:
    """The mesh axes if their size divides `size`, else None: replicated."""
    names = () if axes is None else (axes,) if isinstance(axes, str) else axes
    return axes if size % math.prod(mesh.shape[name] for name in names) == 0 else None
