"""A stack of blocks, and the inputs that all blocks share."""

# B batch, L length, M length of the encoder, P scored positions, N mems, D width

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from research.contract.batch import input_names
from research.contract.errors import UserError
from research.networks.shared.dense import (
    STATE_AXES,
    Dense,
    FeedForward,
    Module,
    Norm,
    dropout,
    gather_positions,
    normal,
)
from research.networks.shared.dense_attention import AttentionInputs
from research.networks.shared.embeddings import lookup
from research.networks.transformer.attention import (
    Attention,
    AttentionOutput,
    PreparedInputs,
    Projections,
    add_window,
    choose_inputs,
    prepare,
)
from research.networks.transformer.cache import Cache, KeyValues
from research.networks.transformer.drawn_branch import run_if_drawn
from research.networks.transformer.layer_mixing import LAYER_MIXINGS
from research.networks.transformer.layer_scan import run_layers, split_layers
from research.networks.transformer.options import TransformerOptions as Options


class Mems(NamedTuple):
    """Transformer-XL's memory: earlier inputs of all blocks, without gradient."""

    state: jax.Array  # [B, layers, N, D]
    segment: jax.Array  # [B, N]; 0: no query attends to it
    same_length: bool = False  # a query attends to itself and the N - 1 before it
    clamp_len: int = 0  # the largest distance; 0: none


class Encoded(NamedTuple):
    """The encoder's output, to which the decoder attends."""

    states: Any  # [B, M, D], or `KeyValues` of all of the decoder's layers
    segment: jax.Array  # [B, M]


class BlockOutput(NamedTuple):
    """What a block computes."""

    states: jax.Array  # [B, L, D]
    earlier: tuple[jax.Array, ...] | None  # outputs of all sublayers so far
    attention: AttentionOutput
    cross: AttentionOutput | None  # None: no cross-attention


class StackOutput(NamedTuple):
    """What a stack computes; None: what was not asked for."""

    states: jax.Array  # [B, L, D]
    inputs: jax.Array | None = None  # [layers, B, L, D] of all blocks
    projections: Projections | None = None  # [layers, B, L, H, K], of self-attention
    cache: Cache | None = None
    memorized: jax.Array | None = None  # [B, layers, any, D]


class LayerOutput(NamedTuple):
    """The results of one layer that a stack keeps, or of all, stacked."""

    inputs: jax.Array | None = None  # [B, L, D], or only at the positions to memorize
    projections: Projections | None = None
    keys: KeyValues | None = None
    cross_keys: KeyValues | None = None


class Block(nn.Module):
    """Self-attention, cross-attention if there is an encoder, feed-forward layer."""

    options: Options

    @nn.compact
    def __call__(
        self,
        x_BLD: jax.Array,
        self_inputs: PreparedInputs,
        *,
        num_keys: int | None = None,
        mems: jax.Array | None = None,
        cross: tuple[jax.Array | KeyValues, PreparedInputs] | None = None,
        scored: jax.Array | None = None,
        cache: tuple[KeyValues, jax.Array] | None = None,
        skips_norm: jax.Array | None = None,
        earlier: tuple[jax.Array, ...] | None = None,
    ) -> BlockOutput:
        """Runs the block on states [B, L, D].

        Args:
          self_inputs: the prepared inputs of self-attention, for all L queries.
          num_keys: only this many first positions serve as keys; None: all.
          mems: [B, N, D] earlier inputs of this block, which precede the other keys.
          cross: the encoder's states [B, M, D], or their keys and values, and the
            prepared inputs of cross-attention.
          scored: [B, P] positions; the states are then only theirs [B, P, D].
          cache: the keys and values of all slots, and the slot at which those of this
            call begin.
          skips_norm: [] bool, whether attention reads states without the norm, whose
            parameters then have no effect; None: with it.
          earlier: the outputs of the embeddings and of all sublayers so far, for
            `layer_mixing`.
        """
        options = self.options
        pre_norm = options.norm_placement == "pre"

        def before(x, name):
            return Norm(options, name=name)(x) if pre_norm else x

        def add(x, y, name):
            x = x + dropout(self, y, "residual")
            x = x if pre_norm else Norm(options, name=name)(x)
            return mix(x, name.removesuffix("_norm"))

        def mix(x, sublayer):
            nonlocal earlier
            mixed = LAYER_MIXINGS[options.layer_mixing].sublayers
            if earlier is None or sublayer not in mixed:
                return x
            earlier = *earlier, x
            return mix_outputs(self, earlier, f"{sublayer}_mixture")

        def at_scored(states):
            return states if scored is None else gather_positions(states, scored)

        def attend(name, x, inputs, source, slots=None):
            inputs = inputs if scored is None else inputs.at(scored)
            attention = Attention(options, name=name)
            return attention(x, inputs, source_BMD=source, slots=slots)

        x, num_mems = x_BLD, 0 if mems is None else mems.shape[1]
        with_mems = x if mems is None else jnp.concatenate([mems, x], axis=1)
        y = before(with_mems, "attention_norm")
        if skips_norm is not None:
            y = jnp.where(skips_norm, with_mems, y)
        source = y if num_keys is None else y[:, : num_mems + num_keys]
        y = at_scored(y[:, num_mems:])
        attention = attend("attention", y, self_inputs, source, cache)
        before_attention = x = at_scored(x)
        earlier = jax.tree.map(at_scored, earlier)
        x = add(x, attention.states, "attention_norm")
        of_cross = None
        if cross is not None:
            encoded, cross_inputs = cross
            y = before(x, "cross_norm")
            of_cross = attend("cross", y, cross_inputs, encoded)
            x = add(x, of_cross.states, "cross_norm")
        of_feedforward = before_attention if options.parallel_residual else x
        y = before(of_feedforward, "feedforward_norm")
        y = FeedForward(options, name="feedforward")(y)
        x = add(x, y, "feedforward_norm")
        x = nn.with_logical_constraint(x, STATE_AXES)
        return BlockOutput(x, earlier, attention, of_cross)


def mix_outputs(block: Block, outputs: tuple[jax.Array, ...], name: str) -> jax.Array:
    """The sum of outputs [B, L, D], with a learned factor for each.

    The factors are parameters of the block, newest output first: initially 1 for it and
    0 for all others (Pagliardini et al. 2024, DenseFormer, section 3). Factors beyond
    the outputs of a block have no effect.
    """
    options = block.options
    mixed = LAYER_MIXINGS[options.layer_mixing].sublayers
    most = len(mixed) * options.layers + 1

    def newest(key, shape, dtype=jnp.float32):
        return jnp.zeros(shape, dtype).at[0].set(1)

    init = nn.with_logical_partitioning(newest, (None,))
    factors = nn.meta.unbox(block.param(name, init, (most,)))
    parts = zip(reversed(outputs), factors, strict=False)
    mixed = sum(x.astype(jnp.float32) * factor for x, factor in parts)
    return mixed.astype(outputs[-1].dtype)


class Stack(Module):
    """Consecutive blocks, with their parameters stacked over the layers.

    If only some positions are scored, the last block computes only these.

    Attributes:
      pattern: the objective's promise about rank and reach: full | causal | general.
      is_shared: the stack is both encoder and decoder: its blocks have cross-attention,
        which is skipped in calls without an encoder's output.
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
        cache: Cache | None = None,
        pattern: str | None = None,
        with_inputs: bool = False,
        with_projections: bool = False,
        runs: jax.Array | None = None,
        decodes: bool = False,
    ) -> StackOutput:
        """Runs all blocks on x [B, L, E].

        Args:
          encoded: output of the encoder, for cross-attention; None: that of the cache.
          scored: [B, P] positions; the states are then only theirs [B, P, D].
          num_keys: only this many first positions serve as keys; None: all.
          mems: earlier inputs of all blocks, which also serve as keys.
          memorize: first position to memorize, and the one after the last.
          cache: keys and values of the preceding tokens, which also serve as keys.
          pattern: the pattern of this group; None: the stack's.
          with_inputs: the output has the inputs of all blocks.
          with_projections: the output has the projections of all blocks.
          runs: if only the states are asked for, [layers] bool: the blocks that run;
            None: all but those that `layer_dropout` skips.
          decodes: the last block is that of `model.mask_decoder`; the output has only
            the states.
        """
        options, x = self.options, x_BLE
        if x.shape[-1] != options.width:
            axes = (None, "embed")
            x = Dense(options, options.width, axes, name="project", unspecified=True)(x)
        x = nn.with_logical_constraint(x, STATE_AXES)
        if cache is not None:
            encoded = encoded or cache.encoded
            cache = cache.write_group(group, num_keys)
        self_inputs, windowed = self._self_inputs(group, num_keys, mems, cache, pattern)
        cross, block = None, Block(options, parent=None)
        if encoded is not None:
            cross = encoded.states, self._cross_inputs(group, encoded)

        def run_block(carry, layer, scored=None):
            x, earlier = carry if options.mixes_layers else (carry, None)
            params, has_window, skips_norm, runs, dropout_key, *others = layer
            mems_BND, keys, cross_keys = others
            cross_of_layer = cross if cross_keys is None else (cross_keys, cross[1])
            own_inputs = self_inputs
            if windowed is not None:
                own_inputs = choose_inputs(has_window, windowed, self_inputs)
            run = partial(
                block.apply,
                {"params": params},
                x,
                own_inputs,
                num_keys=num_keys,
                mems=mems_BND,
                cross=cross_of_layer,
                scored=scored,
                cache=None if cache is None else (keys, cache.used),
                skips_norm=skips_norm,
                earlier=earlier,
                rngs={} if dropout_key is None else {"dropout": dropout_key},
            )
            if runs is not None:
                skipped = x if scored is None else gather_positions(x, scored)
                run_if, rate = lax.cond, options.dropout_rate("layer")
                if rate:  # by which `_by_layer` draws
                    run_if = partial(run_if_drawn, probability=1 - rate)
                return run_if(
                    runs, lambda: run().states, lambda: skipped
                ), left_by_layer(x)
            after = run()
            y = (after.states, after.earlier) if options.mixes_layers else after.states
            return y, left_by_layer(x, after)

        def left_by_layer(x, after=None):
            if mems is not None:
                return LayerOutput(lax.stop_gradient(x[:, slice(*memorize)]))
            output = LayerOutput(x if with_inputs else None)
            if with_projections:
                output = output._replace(projections=after.attention.projections)
            if cache is not None:
                cross_keys = after.cross and after.cross.keys
                keys = after.attention.keys
                output = output._replace(keys=keys, cross_keys=cross_keys)
            return output

        init = partial(self._init_blocks, block, x, group, self_inputs, cross)
        params = self.param("blocks", partial(init, mems=mems, num_keys=num_keys))
        layers = params, *self._by_layer(mems, cache, encoded, runs)
        if options.mixes_layers and runs is not None:
            raise UserError(
                "model.layer_mixing reads each layer, but this objective skips some; "
                "set it to none"
            )
        if decodes:
            count = options.layers - 1
            layers, last = split_layers(layers, (count, 1))
            if count:
                below = dataclasses.replace(options, layers=count)
                x, _ = run_layers(below, run_block, x, layers, None)
            last = jax.tree.map(lambda leaf: leaf[0], last)
            if windowed is not None:
                self_inputs = choose_inputs(last[1], windowed, self_inputs)
            x = self._decode_masks(block, x, group, self_inputs, last, scored)
            return StackOutput(dropout(self, self._final_norm(x), "output"))
        carry = (x, (x,)) if options.mixes_layers else x
        carry, outputs = run_layers(options, run_block, carry, layers, scored)
        x = carry[0] if options.mixes_layers else carry
        x = dropout(self, self._final_norm(x), "output")
        if mems is not None:
            return StackOutput(x, memorized=jnp.moveaxis(outputs.inputs, 0, 1))
        if cache is not None:
            encoded = encoded and encoded._replace(states=outputs.cross_keys)
            cache = cache.write_states(outputs.keys, encoded)
        return StackOutput(x, outputs.inputs, outputs.projections, cache)

    def _final_norm(self, x):
        if self.options.norm_placement == "post":
            return x
        return Norm(self.options, name="norm")(x)

    def _decode_masks(self, block, x, group, inputs, layer, scored):
        """The states after the last block, whose keys are `x` in each of its passes.

        Queries begin as `x` plus embeddings of positions (microsoft/DeBERTa,
        apps/models/masked_language_model.py, EnhancedMaskDecoder).
        """
        options, (params, *_, key) = self.options, layer[:5]
        init = normal(options, 0.02, None, "embed")
        shape = (options.max_length, options.width)
        table = self.param("mask_position", init, shape)
        if (length := x.shape[1]) > options.max_length:
            raise UserError(
                f"model.max_length is {options.max_length}, but the network reads "
                f"{length} positions; it must be at least that"
            )
        query = x + lookup(table, group["position"]).astype(x.dtype)
        if scored is not None:
            query, inputs = gather_positions(query, scored), inputs.at(scored)
        for number in range(options.mask_decoder):
            rngs = {}
            if key is not None:
                rngs["dropout"] = jax.random.fold_in(key, number)
            # As mems, all keys come before queries, which are not keys themselves.
            output = block.apply(
                {"params": params}, query, inputs, mems=x, num_keys=0, rngs=rngs
            )
            query = output.states
        return query

    def _by_layer(self, mems, cache, encoded, runs):
        """The inputs that differ by layer, stacked over the layers.

        Returns:
          whether the layer has a window, whether its attention has no norm, and whether
          it runs; dropout keys, mems, and cached keys and values of self-attention and
          of cross-attention; each None if there are none.
        """
        options, dropout_keys, mems_state = self.options, None, None
        has_window = self._has_window if self._has_window.any() else None
        is_first = np.arange(options.layers) == 0
        skips_norm = None if options.first_attention_norm else is_first
        if options.has_dropout and self.has_rng("dropout"):
            dropout_keys = jax.random.split(self.make_rng("dropout"), options.layers)
        rate = options.dropout_rate("layer")
        if rate and dropout_keys is not None:
            # As fairseq does, modules/layer_drop.py: drawn once for all rows, and not
            # rescaled.
            runs = jax.vmap(
                lambda key: jax.random.bernoulli(jax.random.fold_in(key, 1), 1 - rate)
            )(dropout_keys)
        if mems is not None:
            mems_state = jnp.moveaxis(lax.stop_gradient(mems.state), 1, 0)
        keys = None if cache is None else cache.states
        cross_keys = None if encoded is None else encoded.states
        if not isinstance(cross_keys, KeyValues):  # states, which all layers share
            cross_keys = None
        of_layer = has_window, skips_norm, runs, dropout_keys, mems_state
        return *of_layer, keys, cross_keys

    def _init_blocks(self, block, x, group, self_inputs, cross, key, *, mems, num_keys):
        """Parameters of all blocks, stacked over the layers."""
        if self.is_shared and cross is None:
            cross = x, self._cross_inputs(group, Encoded(x, group["segment"]))

        def init_block(key):
            mems_BND = None if mems is None else mems.state[:, 0]
            more = {"num_keys": num_keys, "mems": mems_BND, "cross": cross}
            if self.options.mixes_layers:
                more["earlier"] = (x,)
            return block.init(key, x, self_inputs, **more)["params"]

        count = 1 if self.options.shared_layers else self.options.layers
        params = jax.vmap(init_block)(jax.random.split(key, count))
        if self.options.init == "small":
            factor = (2 * (1 + jnp.arange(count))) ** -0.5
            for name in {"in", "gate", "out"} & {*params["feedforward"]}:
                layer = params["feedforward"][name]
                layer["kernel"] = jax.tree.map(
                    lambda leaf: leaf * jnp.expand_dims(factor, range(1, leaf.ndim)),
                    layer["kernel"],
                )
        return nn.meta.add_axis(params, 0, {nn.PARTITION_NAME: "layers"})

    @property
    def _has_window(self):
        """[layers] bool."""
        return np.array(
            [self.options.has_window(n) for n in range(self.options.layers)]
        )

    def _self_inputs(self, group, num_keys, mems, cache, pattern):
        """The prepared inputs of self-attention, with parameters that layers share.

        Returns:
          the inputs of all layers, or of those without a window; and the inputs of
          those with a window, None if all layers have the same.
        """
        options = self.options
        query = {name: group[name] for name in input_names(group)}
        key = {name: array[:, :num_keys] for name, array in query.items()}
        mems_segment = start = None
        window = clamp_len = 0
        if mems is not None:
            mems_segment, clamp_len = mems.segment, mems.clamp_len
            window = mems_segment.shape[1] - 1 if mems.same_length else 0
        if cache is not None:
            key, start = cache.group, cache.used
        inputs = AttentionInputs(
            query,
            key,
            pattern or self.pattern,
            mems_segment,
            start=start,
            window=window,
            clamp_len=clamp_len,
        )
        if scheme := options.bias_scheme:
            inputs = inputs._replace(bias=scheme.bias(self, options, inputs))
        prepared = prepare(self, options, inputs)
        if not self._has_window.any():
            return prepared, None
        windowed = add_window(options, inputs, prepared)
        return (windowed, None) if self._has_window.all() else (prepared, windowed)

    def _cross_inputs(self, group, encoded):
        # Only segments: ranks and positions of encoder and decoder are not comparable.
        query, key = {"segment": group["segment"]}, {"segment": encoded.segment}
        if self.options.cross_output == "token_type":
            query["token_type"] = group["token_type"]
        return prepare(self, self.options, AttentionInputs(query, key))
