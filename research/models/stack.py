"""A stack of blocks: scanned or unrolled over layers, rematerialised by policy."""

# B batch, L length, P scored places, D width, E width of tables

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
from flax import linen as nn
from jax import lax

from research.models.attention import Attention, Sight, mask, sight
from research.models.layers import (
    PRODUCT,
    RESIDUAL,
    Dense,
    FeedForward,
    Norm,
    dropout,
    normal,
    take,
)
from research.models.options import Options
from research.models.positions import BUCKETS, relative_bias, rotation


class Block(nn.Module):
    """Attention, attention to a memory where there is one, feed-forward."""

    options: Options

    @nn.compact
    def __call__(
        self, x, sight: Sight, *, turn=None, memory=None, scored=None, keys=None
    ):
        """States [B, L, D] after the block, or [B, P, D] of the scored places alone.

        Args:
          keys: only the first so many places serve as keys; None: all.
          sight: of the queries that are computed (the scored ones, where given).
          turn: rotary angles of queries and of keys.
          memory: states [B, M, D] of an encoder, and the sight of them.
        """
        options = self.options
        pre = options.norm_place == "pre"

        def enter(x, name):
            return Norm(options, name=name)(x) if pre else x

        def leave(x, y, name):
            x = x + dropout(self, y)
            return x if pre else Norm(options, name=name)(x)

        def at(states):
            return states if scored is None else take(states, scored)

        y = enter(x, "attention_norm")
        attention = Attention(options, name="attention")
        y = attention(at(y), sight, source=y[:, :keys], turn=turn)
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
    def __call__(self, x, group, *, memory=None, scored=None, keys=None):
        """States [B, L, D], or [B, P, D] of the scored places, from x [B, L, E].

        Only the first `keys` places serve as keys; None: all.
        """
        options = self.options
        if x.shape[-1] != options.width:
            axes = (None, "embed")
            x = Dense(options, options.width, axes, name="project")(x)
        x = nn.with_logical_constraint(x, RESIDUAL)
        seen, turn = self._sight(group, keys)
        block = Block(options, parent=None)

        def init(key):
            def one(key):
                made = block.init(key, x, seen, turn=turn, memory=memory, keys=keys)
                return made["params"]

            count = 1 if options.shared_layers else options.layers
            params = jax.vmap(one)(jax.random.split(key, count))
            return nn.meta.add_axis(params, 0, {nn.PARTITION_NAME: "layers"})

        def run(x, seen, turn, layer, scored=None):
            params, key = layer
            rngs = {} if key is None else {"dropout": key}
            return block.apply(
                {"params": params},
                x,
                seen,
                turn=turn,
                memory=memory,
                scored=scored,
                keys=keys,
                rngs=rngs,
            )

        noise = None
        if options.dropout and self.has_rng("dropout"):
            noise = jax.random.split(self.make_rng("dropout"), options.layers)
        params = self.param("blocks", init)
        x = _layers(options, run, (params, noise), x, seen, turn, scored)
        return Norm(options, name="norm")(x) if options.norm_place == "pre" else x

    def _sight(self, group, keys):
        """Who sees whom and, for rotary positions, the angles of queries and keys."""
        options = self.options
        position = group["position"]
        bias = turn = None
        if options.position == "t5":
            std = options.width**-0.5 if options.init == "t5" else 0.02
            shape = (BUCKETS, options.heads)
            table = self.param("relative", normal(options, std, None, "heads"), shape)
            causal = self.pattern == "causal"
            bias = relative_bias(table, position, position[:, :keys], causal=causal)
        elif options.position == "rotary":
            angles = rotation(position, options.head_width)
            turn = (angles, tuple(angle[:, :keys] for angle in angles))
        return sight(mask(self.pattern, group, keys), bias), turn


def _layers(
    options: Options, run: Callable, layers: Any, x, seen: Sight, turn, scored
) -> jax.Array:
    """Runs the blocks; the last one for the scored places alone, where there are any.

    Args:
      run: (x, sight, turn, layer, scored) -> x.
      layers: parameters and dropout keys, stacked; one block's if they are shared.
    """
    count = options.layers
    params, keys = layers
    if options.shared_layers:
        params = jax.tree.map(lambda leaf: leaf[0], params)
        layers = keys

    def one(x, layer):
        layer = (params, layer) if options.shared_layers else layer
        return run(x, seen, turn, layer)

    def last(x, layer):
        layer = (params, layer) if options.shared_layers else layer
        here = (
            None if turn is None else (tuple(take(a, scored) for a in turn[0]), turn[1])
        )
        return run(x, seen.at(scored), here, layer, scored)

    scanned = options.unroll < count - (scored is not None)
    remat = REMAT[options.remat]
    one, last = remat(one, prevent_cse=not scanned), remat(last, prevent_cse=True)
    if scored is None:
        return _loop(one, x, layers, count, options.unroll)
    before, final = _cut(layers, (count - 1, 1))
    x = _loop(one, x, before, count - 1, options.unroll)
    return last(x, jax.tree.map(lambda leaf: leaf[0], final))


def _loop(body, x, layers, count, unroll):
    """Feeds x through `count` layers, `unroll` of them in one step of a scan."""
    if unroll < count:
        return lax.scan(
            lambda x, layer: (body(x, layer), None), x, layers, count, unroll=unroll
        )[0]
    for layer in _cut(layers, (1,) * count):
        x = body(x, jax.tree.map(lambda leaf: leaf[0], layer))
    return x


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
