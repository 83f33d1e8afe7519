"""A stack of blocks: scanned or unrolled over layers, rematerialised by policy."""

# B batch, L length, M length of the encoder, P scored positions, N mems, D width

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from research.batch import input_group
from research.models.layers.attention import Attention, PreparedInputs, prepare
from research.models.layers.dense import (
    DENSE_PRODUCT,
    STATE_AXES,
    Dense,
    FeedForward,
    Norm,
    dropout,
    gather_positions,
    normal,
)
from research.models.layers.dense_attention import AttentionInputs
from research.models.layers.positions import NUM_BUCKETS
from research.models.layers.relative import relative_biases
from research.models.options import Options


class Mems(NamedTuple):
    """Transformer-XL's memory: earlier inputs of all blocks, without gradient."""

    state: jax.Array  # [B, layers, N, D]
    segment: jax.Array  # [B, N]; 0: no query attends to it


class Encoded(NamedTuple):
    """The encoder's output, to which the decoder attends."""

    states: jax.Array  # [B, M, D]
    segment: jax.Array  # [B, M]


class Block(nn.Module):
    """Self-attention, cross-attention if there is an encoder, feed-forward."""

    options: Options

    @nn.compact
    def __call__(
        self,
        x_BLD: jax.Array,
        self_inputs: PreparedInputs,
        *,
        num_keys: int | None = None,
        mems: jax.Array | None = None,
        cross: tuple[jax.Array, PreparedInputs] | None = None,
        scored: jax.Array | None = None,
    ) -> jax.Array:
        """States [B, L, D] after the block, or [B, P, D] at the scored positions alone.

        Args:
          self_inputs: of all L queries.
          num_keys: only the first so many positions serve as keys; None: all.
          mems: [B, N, D] earlier inputs of this block, keys before the others.
          cross: the encoder's states [B, M, D], and the inputs of attention to them.
          scored: [B, P].
        """
        options = self.options
        pre_norm = options.norm_placement == "pre"

        def before(x, name):
            return Norm(options, name=name)(x) if pre_norm else x

        def add(x, y, name):
            x = x + dropout(self, y, "residual")
            return x if pre_norm else Norm(options, name=name)(x)

        def at_scored(states):
            return states if scored is None else gather_positions(states, scored)

        def attend(name, x, inputs, source):
            inputs = inputs if scored is None else inputs.at(scored)
            return Attention(options, name=name)(x, inputs, source_BMD=source)

        x, num_mems = x_BLD, 0 if mems is None else mems.shape[1]
        with_mems = x if mems is None else jnp.concatenate([mems, x], axis=1)
        y = before(with_mems, "attention_norm")
        source = y if num_keys is None else y[:, : num_mems + num_keys]
        y = attend("attention", at_scored(y[:, num_mems:]), self_inputs, source)
        x = add(at_scored(x), y, "attention_norm")
        if cross is not None:
            encoded, cross_inputs = cross
            y = attend("cross", before(x, "cross_norm"), cross_inputs, encoded)
            x = add(x, y, "cross_norm")
        y = FeedForward(options, name="feedforward")(before(x, "feedforward_norm"))
        x = add(x, y, "feedforward_norm")
        return nn.with_logical_constraint(x, STATE_AXES)


class Stack(nn.Module):
    """Consecutive blocks, with their parameters stacked over the layers.

    If only some positions are scored, the last block computes only those, since nothing
    reads the others.

    Attributes:
      pattern: the objective's promise about rank and reach: full | causal | general.
      is_shared: the stack is encoder and decoder: its blocks have cross-attention,
        which calls without an encoder's output do not use.
    """

    options: Options
    pattern: str
    is_shared: bool = False

    @nn.compact
    def __call__(
        self,
        x_BLE: jax.Array,
        group: Mapping,
        *,
        encoded: Encoded | None = None,
        scored: jax.Array | None = None,
        num_keys: int | None = None,
        mems: Mems | None = None,
        memorize: tuple[int, int] = (0, 0),
        pattern: str | None = None,
    ) -> Any:
        """States [B, L, D], or [B, P, D] at the scored positions, from x [B, L, E].

        With mems a pair: these, and the inputs [B, layers, any, D] of all blocks at the
        positions to memorize.

        Args:
          encoded: output of the encoder, for cross-attention.
          scored: [B, P].
          num_keys: only the first so many positions serve as keys; None: all.
          mems: earlier inputs of all blocks, which serve as keys too.
          memorize: first position to memorize, and the one after the last.
          pattern: of this group, if it is not the stack's.
        """
        options, x = self.options, x_BLE
        if x.shape[-1] != options.width:
            axes = (None, "embed")
            x = Dense(options, options.width, axes, name="project")(x)
        x = nn.with_logical_constraint(x, STATE_AXES)
        self_inputs = self._self_inputs(group, num_keys, mems, pattern or self.pattern)
        cross = None if encoded is None else self._cross(group, encoded)
        block = Block(options, parent=None)

        def init(key):
            other = cross
            if self.is_shared and cross is None:
                other = self._cross(group, Encoded(x, group["segment"]))

            def init_block(key):
                mems_BND = None if mems is None else mems.state[:, 0]
                more = {"num_keys": num_keys, "mems": mems_BND, "cross": other}
                return block.init(key, x, self_inputs, **more)["params"]

            count = 1 if options.shared_layers else options.layers
            params = jax.vmap(init_block)(jax.random.split(key, count))
            return nn.meta.add_axis(params, 0, {nn.PARTITION_NAME: "layers"})

        def run_block(x, layer, scored=None):
            params, dropout_key, mems_BND = layer
            after = block.apply(
                {"params": params},
                x,
                self_inputs,
                num_keys=num_keys,
                mems=mems_BND,
                cross=cross,
                scored=scored,
                rngs={} if dropout_key is None else {"dropout": dropout_key},
            )
            if mems is None:
                return after, None
            return after, lax.stop_gradient(x[:, slice(*memorize)])

        dropout_keys = mems_state = None
        if options.has_dropout and self.has_rng("dropout"):
            dropout_keys = jax.random.split(self.make_rng("dropout"), options.layers)
        if mems is not None:
            mems_state = jnp.moveaxis(lax.stop_gradient(mems.state), 1, 0)
        layers = self.param("blocks", init), dropout_keys, mems_state
        x, inputs = _run_layers(options, run_block, x, layers, scored)
        x = Norm(options, name="norm")(x) if options.norm_placement == "pre" else x
        x = dropout(self, x, "output")
        return x if mems is None else (x, jnp.moveaxis(inputs, 0, 1))

    def _self_inputs(self, group, num_keys, mems, pattern):
        """What all layers' self-attention reads, and parameters that they share."""
        options, bias_table = self.options, None
        if options.position == "t5":
            std = options.width**-0.5 if options.init == "t5" else 0.02
            init = normal(options, std, None, "heads")
            bias_table = self.param("relative", init, (NUM_BUCKETS, options.heads))
        query = input_group(group)
        key = {name: array[:, :num_keys] for name, array in query.items()}
        mems_segment = None if mems is None else mems.segment
        inputs = AttentionInputs(query, key, pattern, mems_segment, bias_table)
        prepared = prepare(options, inputs)
        if options.shared_relative_biases:
            prepared = prepared._replace(relative_biases=relative_biases(self))
        if options.position == "relative":
            relative = prepared.key.relative
            sinusoids = dropout(self, relative.sinusoids, "position")
            relative = relative._replace(sinusoids=sinusoids)
            prepared = prepared._replace(key=prepared.key._replace(relative=relative))
        return prepared

    def _cross(self, group, encoded):
        # Only segments: ranks and positions of the two sides are on different scales.
        query, key = {"segment": group["segment"]}, {"segment": encoded.segment}
        if self.options.cross_output == "token_type":
            query["token_type"] = group["token_type"]
        return encoded.states, prepare(self.options, AttentionInputs(query, key))


def _run_layers(options: Options, run_block: Callable, x, layers: Any, scored):
    """Runs all blocks, the last one only at the scored positions, if there are any.

    Args:
      run_block: (x, layer, scored) -> x, and what the layer outputs beside it.
      layers: (params, ...): stacked over the layers, except params if they are shared.

    Returns:
      x, and the other outputs stacked over the layers.
    """
    params, *others = layers
    if options.shared_layers:
        params = jax.tree.map(lambda leaf: leaf[0], params)
        layers = (None, *others)

    def run(x, layer, scored=None):
        layer = (params, *layer[1:]) if options.shared_layers else layer
        return run_block(x, layer, scored)

    count, unroll, remat = options.layers, options.scan_unroll, REMAT[options.remat]
    is_scanned = unroll < count - (scored is not None)
    run_all = remat(run, prevent_cse=not is_scanned)
    if scored is None:
        return _scan_or_unroll(run_all, x, layers, count, unroll)
    run_scored = remat(partial(run, scored=scored), prevent_cse=True)
    first, last = _split_layers(layers, (count - 1, 1))
    x, outputs = _scan_or_unroll(run_all, x, first, count - 1, unroll)
    x, output = run_scored(x, jax.tree.map(lambda leaf: leaf[0], last))
    return x, _append(outputs, output)


def _scan_or_unroll(run, x, layers, count, unroll):
    """Feeds x through `count` layers, `unroll` of them in one step of a scan.

    Returns:
      x, and the other outputs stacked over the layers; None, if there are none.
    """
    if unroll < count:
        return lax.scan(run, x, layers, count, unroll=unroll)
    outputs = None
    for layer in _split_layers(layers, (1,) * count):
        x, output = run(x, jax.tree.map(lambda leaf: leaf[0], layer))
        outputs = _append(outputs, output)
    return x, outputs


def _append(outputs, output):
    """The stacked outputs of the first layers, with that of one more."""
    if outputs is None or output is None:
        return output if output is None else output[None]
    return jnp.concatenate([outputs, output[None]])


def _split_layers(layers, sizes):
    """Splits stacked leaves along the layers; the gradient is one concatenation."""
    parts = jax.tree.map(lambda leaf: lax.split(leaf, sizes), layers)
    outer = jax.tree.structure(layers)
    if not outer.num_leaves:
        return [layers] * len(sizes)
    return jax.tree.transpose(outer, jax.tree.structure([0] * len(sizes)), parts)


def _save_everything(body, *, prevent_cse):
    return body


REMAT: Mapping[str, Callable] = {
    "none": _save_everything,
    "dots": partial(
        jax.checkpoint,
        policy=jax.checkpoint_policies.save_only_these_names(DENSE_PRODUCT),
    ),
    "full": jax.checkpoint,
}
"""What a block saves for its gradient: all, the products of dense layers, its input."""
