"""The attention layer: projections, position terms, and attention itself.

A stack gives `AttentionInputs`, the batch's integer arrays, to `prepare`; its blocks
pass on the opaque result. Its mask has the format of the kernel that `model.attention`
chooses (research/networks/transformer/kernels).
"""

# B batch, L queries, M keys, H heads, K head width, D width, P scored positions,
# C token types

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.contract.errors import UserError
from research.networks.shared.activations import gelu
from research.networks.shared.dense import (
    Dense,
    Module,
    Norm,
    dropout,
    gather_positions,
    normal,
)
from research.networks.shared.dense_attention import (
    AttentionInputs,
    DenseMask,
    dense_attention,
    dense_mask,
)
from research.networks.transformer import positions, relative_types
from research.networks.transformer.cache import KeyValues
from research.networks.transformer.head_gates import HEAD_GATE, gate_heads
from research.networks.transformer.kernels import choose_kernel
from research.networks.transformer.options import TransformerOptions as Options


class PreparedInputs(NamedTuple):
    """What all layers of a stack derive from the same `AttentionInputs`; opaque."""

    mask: Any  # the kernel's, with a method `at(scored)`
    scheme: positions.Scheme  # the base class, if positions are not comparable
    positions: positions.Prepared
    query_type: jax.Array | None = None  # [B, L, C] one-hot, of relative token types
    key_type: jax.Array | None = None  # [B, M, C]
    output: jax.Array | None = None  # [B, L, C] one-hot, selects the last projection
    query_biases: Mapping[str, jax.Array] | None = None  # if all layers share them

    def at(self, scored_BP: jax.Array) -> "PreparedInputs":
        """The inputs for only the queries at the scored positions."""
        query_type, output = (
            None if each is None else gather_positions(each, scored_BP)
            for each in (self.query_type, self.output)
        )
        return self._replace(
            mask=self.mask.at(scored_BP),
            positions=self.scheme.at(self.positions, scored_BP),
            query_type=query_type,
            output=output,
        )


class Projections(NamedTuple):
    """What a layer's attention reads, [B, L, H, K] each.

    Rotary positions are applied, relative terms are not, and queries are not scaled.
    """

    query: jax.Array
    key: jax.Array
    value: jax.Array


class AttentionOutput(NamedTuple):
    """What an attention layer computes."""

    states: jax.Array  # [B, L, D]
    keys: KeyValues  # of the source alone, without a cache's earlier ones
    projections: Projections


def prepare(stack: Module, options: Options, inputs: AttentionInputs) -> PreparedInputs:
    """Derives what all attention layers of a stack share, with its parameters."""
    scheme, query_type, key_type, output = positions.Scheme(), None, None, None
    if "position" in inputs.query:
        scheme = options.scheme
        if options.has_relative_types:
            query_type, key_type = relative_types.one_hot_types(options, inputs)
    elif "token_type" in inputs.query:
        output = jax.nn.one_hot(
            inputs.query["token_type"], options.token_types, dtype=options.dtype
        )
    prepared = scheme.prepare(stack, options, inputs)
    mask, of_types = _make_mask(options, inputs), (query_type, key_type, output)
    inputs = PreparedInputs(mask, scheme, prepared, *of_types)
    if options.shared_relative_biases:
        inputs = inputs._replace(query_biases=_query_biases(stack, inputs))
    return inputs


def _query_biases(module: Module, inputs: PreparedInputs) -> dict[str, jax.Array]:
    """Vectors [heads x head width] that are added to queries, as its parameters."""
    names, options = [*inputs.scheme.query_biases], module.options
    if inputs.query_type is not None:
        names.append(relative_types.QUERY_BIAS)
    init, shape = normal(options, 0.02, "heads"), (options.attention_width,)
    return {name: module.param(name, init, shape) for name in names}


def add_window(
    options: Options, inputs: AttentionInputs, prepared: PreparedInputs
) -> PreparedInputs:
    """The inputs for layers with `model.window`, which may have another rotary base.

    Raises:
      UserError: the rows are not in the order of positions, or there are mems.
    """
    if inputs.pattern == "general":
        raise UserError(
            f"model.window is {options.window}, but the attention mask of this "
            "objective is neither full nor causal; set model.window=0"
        )
    if inputs.mems_segment is not None:
        raise UserError(
            f"model.window is {options.window}, but all queries attend to mems "
            "(objective.mem_len); set model.window=0"
        )
    mask = _make_mask(options, inputs._replace(window=options.window))
    in_window = prepared.scheme.in_window(prepared.positions, options, inputs)
    return prepared._replace(mask=mask, positions=in_window)


def choose_inputs(
    has_window: jax.Array, windowed: PreparedInputs, others: PreparedInputs
) -> PreparedInputs:
    """The inputs of a layer, chosen by a scalar, since layers may be scanned.

    The two differ only in arrays; kernels have the same tiles.
    """

    def choose(one, other):
        if one is other or not isinstance(one, jax.Array):
            return other
        return jnp.where(has_window, one, other)

    return jax.tree.map(choose, windowed, others)


def _make_mask(options: Options, inputs: AttentionInputs) -> Any:
    """The mask of the kernel that `model.attention` chooses."""
    if inputs.start is not None:
        return dense_mask(inputs)  # a cache has few queries per call
    kernel = choose_kernel(options, inputs)
    return kernel.mask(inputs, options.key_width, options.operand_dtype)


class LogitTerms(Module):
    """What positions and token types add to the logits of one layer."""

    options: Options

    @nn.compact
    def __call__(
        self, layer: positions.Layer, inputs: PreparedInputs
    ) -> tuple[jax.Array, jax.Array, Any]:
        """The scaled queries, the keys, and as `Scheme.logits` what is added."""
        biases = inputs.query_biases
        if biases is None:
            biases = _query_biases(self, inputs)
        shape = (1, 1, *layer.query.shape[2:])
        dtype = layer.query.dtype
        biases = {name: x.astype(dtype).reshape(shape) for name, x in biases.items()}
        layer = layer._replace(biases=biases)
        query, relative = inputs.scheme.logits(self, layer, inputs.positions)
        if inputs.query_type is None:
            return query, layer.key, relative
        of_types = inputs.query_type, inputs.key_type
        return *relative_types.add_types(self, layer, query, *of_types), relative


class Attention(nn.Module):
    """Multi-head self-attention or cross-attention."""

    options: Options

    @nn.compact
    def __call__(
        self,
        states_BLD: jax.Array,
        inputs: PreparedInputs,
        *,
        source_BMD: jax.Array | KeyValues | None = None,
        slots: tuple[KeyValues, jax.Array] | None = None,
    ) -> AttentionOutput:
        """Attends from states [B, L, D].

        Args:
          inputs: the prepared inputs of these queries and keys.
          source_BMD: states that are projected to keys and values, or these themselves;
            None: `states_BLD`.
          slots: keys and values of all slots of a cache, and the first slot to which
            those of the source are written; None: no cache.
        """
        options = self.options
        num_heads, key_width = options.heads, options.key_width
        t5 = options.init == "t5"
        bias = options.bias and not options.scheme.query_biases
        dense = partial(Dense, options)

        layers = {}

        def project(name, state, count, init_scale=1.0):
            if name not in layers:
                own = {"bias": bias or options.qkv_bias, "scale": init_scale}
                size, axes = count * key_width, ("embed", "heads")
                layers[name] = dense(size, axes, **own, name=name)
            y = layers[name](state).reshape(*state.shape[:2], count, key_width)
            if options.qk_norm and name != "value":
                y = Norm(options, axis=None, name=f"{name}_norm")(y)
            return y

        init_scale = key_width**-0.5 if t5 else 1.0
        query = project("query", states_BLD, num_heads, init_scale)
        own = source = states_BLD if source_BMD is None else source_BMD
        num_kv_heads = options.num_kv_heads or num_heads
        if not isinstance(source, KeyValues):
            names = ("key", "value")
            own = KeyValues(*(project(name, source, num_kv_heads) for name in names))
        key, value = own if slots is None else slots[0].write(own, slots[1])
        repeats = num_heads // num_kv_heads
        if repeats > 1:
            key, value = (jnp.repeat(each, repeats, axis=2) for each in (key, value))
        query, key = inputs.scheme.rotate(query, key, inputs.positions)
        projections = Projections(query, key, value)

        def project_table(name, table):
            if name == "query":
                return project(name, table, num_heads)[0]
            return jnp.repeat(project(name, table, num_kv_heads)[0], repeats, axis=1)

        scale = 1.0 if t5 else key_width**-0.5
        drop = partial(dropout, self, place="position")
        layer = positions.Layer(query, key, scale, {}, project_table, drop)
        query, key, relative = LogitTerms(options, name="relative")(layer, inputs)
        out = self._attend(query, key, value, inputs.mask, relative)
        if self.has_variable("params", HEAD_GATE):
            out = gate_heads(out, self.get_variable("params", HEAD_GATE))
        out = out.reshape(*out.shape[:2], options.attention_width)
        if options.attention_gate:
            axes = ("embed", "heads")
            gate = dense(options.attention_width, axes, bias=bias, name="gate")
            out *= gelu(gate(states_BLD))
        if options.sublayer_norm:
            out = Norm(options, axis="heads", name="out_norm")(out)
        out = self._project_out(partial(dense, bias=bias), out, inputs.output)
        return AttentionOutput(out, own, projections)

    def _attend(self, query, key, value, mask, relative):
        """Attention by the kernel to which the mask belongs.

        It is skipped at initialisation, since it has no parameters: layers are drawn
        with `jax.vmap`, under which cuDNN's kernel rejects a mask that all share.
        """
        dtype, operand_dtype = query.dtype, self.options.operand_dtype
        if self.is_initializing():
            return jnp.zeros(query.shape[:-1] + value.shape[-1:], dtype)
        query, key, value = (each.astype(operand_dtype) for each in (query, key, value))
        if isinstance(relative, tuple):
            relative = tuple(each.astype(operand_dtype) for each in relative)
        rate = self.options.dropout_rate("attention")
        drops = rate > 0 and self.has_rng("dropout")
        if not isinstance(mask, DenseMask):
            own = {} if relative is None else {"relative": relative}
            if drops:
                own |= {"dropout_rate": rate, "dropout_key": self.make_rng("dropout")}
            return mask.attend(query, key, value, **own).astype(dtype)
        drop = partial(dropout, self, place="attention") if drops else None
        out = dense_attention(query, key, value, mask, relative=relative, drop=drop)
        return out.astype(dtype)

    def _project_out(self, dense, out, types_BLC):
        """The output projection; with one-hot `types_BLC`, one per token type."""
        axes = ("heads", "embed")
        layer = partial(dense, self.options.width, axes, residual=True)
        if types_BLC is None:
            return layer(name="out")(out)
        types = range(self.options.token_types)
        out_CBLD = jnp.stack([layer(name=f"out_{n}")(out) for n in types])
        return jnp.einsum("blc,cbld->bld", types_BLC, out_CBLD)
