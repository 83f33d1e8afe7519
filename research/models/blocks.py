"""A stack of blocks: scanned or unrolled over layers, rematerialised by policy."""

# B batch, L length, P scored places, N remembered places, D width, E width of tables

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from research.models.layers.attention import Attention, Sight, mask, sight
from research.models.layers.dense import (
    PRODUCT,
    RESIDUAL,
    Dense,
    FeedForward,
    Norm,
    dropout,
    gather_positions,
    normal,
)
from research.models.layers.positions import BUCKETS, relative_bias
from research.models.layers.relative import places
from research.models.options import Options


class Past(NamedTuple):
    """What all blocks read before, which serves as keys; nothing is learned of it."""

    state: jax.Array  # [B, layers, N, D]
    segment: jax.Array  # [B, N], 0: nobody sees it


class Block(nn.Module):
    """Attention, attention to a memory where there is one, feed-forward."""

    options: Options

    @nn.compact
    def __call__(
        self,
        x,
        sight: Sight,
        *,
        places=None,
        past=None,
        memory=None,
        scored=None,
        keys=None,
    ):
        """States [B, L, D] after the block, or [B, P, D] of the scored places alone.

        Args:
          keys: only the first so many places serve as keys; None: all.
          sight: of the queries that are computed (the scored ones, where given).
          places: where these queries and the keys are.
          past: [B, N, D] inputs of the block that serve as keys, before the others.
          memory: states [B, M, D] of an encoder, and the sight of them.
        """
        options = self.options
        pre = options.norm_placement == "pre"

        def enter(x, name):
            return Norm(options, name=name)(x) if pre else x

        def leave(x, y, name):
            x = x + dropout(self, y)
            return x if pre else Norm(options, name=name)(x)

        def at(states):
            return states if scored is None else gather_positions(states, scored)

        count = 0 if past is None else past.shape[1]
        whole = x if past is None else jnp.concatenate([past, x], axis=1)
        y = enter(whole, "attention_norm")
        source = y if keys is None else y[:, : count + keys]
        attention = Attention(options, name="attention")
        y = attention(at(y[:, count:]), sight, source=source, places=places)
        x = leave(at(x), y, "attention_norm")
        if memory is not None:
            states, seen = memory
            seen = seen if scored is None else seen.at(scored)
            y = enter(x, "cross_norm")
            y = Attention(options, name="cross")(y, seen, source=states)
            x = leave(x, y, "cross_norm")
        y = FeedForward(options, name="feedforward")(enter(x, "feedforward_norm"))
        x = leave(x, y, "feedforward_norm")
        return nn.with_logical_constraint(x, RESIDUAL)


class Stack(nn.Module):
    """Blocks one after another, with their parameters stacked over the layers.

    Where only some places are scored, the last block computes those alone: nothing
    reads the others.

    Attributes:
      pattern: a promise about who sees whom, as `attention.mask` takes it.
    """

    options: Options
    pattern: str

    @nn.compact
    def __call__(
        self,
        x,
        group,
        *,
        memory=None,
        scored=None,
        keys=None,
        past: Past | None = None,
        kept: tuple[int, int] = (0, 0),
    ):
        """States [B, L, D], or [B, P, D] of the scored places, from x [B, L, E].

        With a past: these, and the inputs [B, layers, any, D] of all blocks at the
        places that are kept.

        Args:
          keys: only the first so many places serve as keys; None: all.
          past: earlier inputs of all blocks, which serve as keys too.
          kept: the first of these places, and the one behind the last.
        """
        options = self.options
        if x.shape[-1] != options.width:
            axes = (None, "embed")
            x = Dense(options, options.width, axes, name="project")(x)
        x = nn.with_logical_constraint(x, RESIDUAL)
        seen = self._sight(group, keys, past)
        remembered = 0 if past is None else past.segment.shape[1]
        where = places(options, group, keys, remembered)
        block = Block(options, parent=None)

        def init(key):
            def one(key):
                first = None if past is None else past.state[:, 0]
                more = {"places": where, "past": first, "memory": memory, "keys": keys}
                return block.init(key, x, seen, **more)["params"]

            count = 1 if options.shared_layers else options.layers
            params = jax.vmap(one)(jax.random.split(key, count))
            return nn.meta.add_axis(params, 0, {nn.PARTITION_NAME: "layers"})

        def run(x, seen, where, layer, scored=None):
            params, key, before = layer
            rngs = {} if key is None else {"dropout": key}
            after = block.apply(
                {"params": params},
                x,
                seen,
                places=where,
                past=before,
                memory=memory,
                scored=scored,
                keys=keys,
                rngs=rngs,
            )
            return after, None if past is None else lax.stop_gradient(
                x[:, slice(*kept)]
            )

        noise = before = None
        if options.dropout and self.has_rng("dropout"):
            noise = jax.random.split(self.make_rng("dropout"), options.layers)
        if past is not None:
            before = jnp.moveaxis(lax.stop_gradient(past.state), 1, 0)
        layers = self.param("blocks", init), noise, before
        x, inputs = _layers(options, run, layers, x, seen, where, scored)
        x = Norm(options, name="norm")(x) if options.norm_placement == "pre" else x
        return x if past is None else (x, jnp.moveaxis(inputs, 0, 1))

    def _sight(self, group, keys, past) -> Sight:
        """Who sees whom; all that are no padding see all of the past that is none."""
        options = self.options
        seen, bias = mask(self.pattern, group, keys), None
        if past is not None:
            shape = (*seen.shape[:2], past.segment.shape[1])
            here, there = group["segment"] > 0, past.segment > 0
            both = jnp.broadcast_to(here[:, :, None] & there[:, None], shape)
            seen = jnp.concatenate([both, seen], axis=-1)
        if options.position == "t5":
            std = options.width**-0.5 if options.init == "t5" else 0.02
            shape = (BUCKETS, options.heads)
            table = self.param("relative", normal(options, std, None, "heads"), shape)
            position, causal = group["position"], self.pattern == "causal"
            bias = relative_bias(table, position, position[:, :keys], causal=causal)
        return sight(seen, bias)


def _layers(
    options: Options, run: Callable, layers: Any, x, seen: Sight, where, scored
) -> tuple[jax.Array, Any]:
    """Runs the blocks; the last one for the scored places alone, where there are any.

    Args:
      run: (x, sight, places, layer, scored) -> x, and what it keeps.
      layers: parameters and what else each block has for itself, stacked; the
        parameters of one block if they are shared.
    """
    count = options.layers
    params, *others = layers
    if options.shared_layers:
        params = jax.tree.map(lambda leaf: leaf[0], params)
        layers = (None, *others)

    def one(x, layer):
        layer = (params, *layer[1:]) if options.shared_layers else layer
        return run(x, seen, where, layer)

    def last(x, layer):
        layer = (params, *layer[1:]) if options.shared_layers else layer
        query, key = where
        query = jax.tree.map(lambda leaf: gather_positions(leaf, scored), query)
        return run(x, seen.at(scored), (query, key), layer, scored)

    scanned = options.scan_unroll < count - (scored is not None)
    remat = REMAT[options.remat]
    one, last = remat(one, prevent_cse=not scanned), remat(last, prevent_cse=True)
    if scored is None:
        return _loop(one, x, layers, count, options.scan_unroll)
    before, final = _cut(layers, (count - 1, 1))
    x, kept = _loop(one, x, before, count - 1, options.scan_unroll)
    x, more = last(x, jax.tree.map(lambda leaf: leaf[0], final))
    return x, _stacked(kept, more)


def _loop(body, x, layers, count, unroll):
    """Feeds x through `count` layers, `unroll` of them in one step of a scan.

    Returns:
      x, and what all layers keep, stacked; None, if nothing.
    """
    if unroll < count:
        return lax.scan(body, x, layers, count, unroll=unroll)
    kept = None
    for layer in _cut(layers, (1,) * count):
        x, more = body(x, jax.tree.map(lambda leaf: leaf[0], layer))
        kept = _stacked(kept, more)
    return x, kept


def _stacked(kept, more):
    """What a layer keeps, added to what those before it do."""
    if kept is None or more is None:
        return more if more is None else more[None]
    return jnp.concatenate([kept, more[None]])


def _cut(layers, sizes):
    """Cuts stacked leaves along the layers; the gradient is one concatenation."""
    parts = jax.tree.map(lambda leaf: lax.split(leaf, sizes), layers)
    outer = jax.tree.structure(layers)
    if not outer.num_leaves:
        return [layers] * len(sizes)
    return jax.tree.transpose(outer, jax.tree.structure([0] * len(sizes)), parts)


def _everything(body, *, prevent_cse):
    return body


REMAT: Mapping[str, Callable] = {
    "none": _everything,
    "dots": partial(
        jax.checkpoint,
        policy=jax.checkpoint_policies.save_only_these_names(PRODUCT),
    ),
    "full": jax.checkpoint,
}
"""What a block keeps for its gradient: all, its dense layers' products, its input."""
