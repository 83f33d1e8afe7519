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
    Norm,
    dropout,
    gather_positions,
)
from research.networks.shared.dense_attention import (
    AttentionInputs,
    DenseMask,
    dense_attention,
    dense_mask,
)
from research.networks.shared.positions import (
    apply_rotary,
    rotary_angles,
)
from research.networks.transformer.cache import KeyValues
from research.networks.transformer.disentangled import (
    disentangled_logits,
    distance_bucket,
)
from research.networks.transformer.head_gates import HEAD_GATE, gate_heads
from research.networks.transformer.kernels import choose_kernel
from research.networks.transformer.options import TransformerOptions as Options
from research.networks.transformer.relative import (
    RelativeFeatures,
    RelativeTerms,
    relative_features,
)


class PositionFeatures(NamedTuple):
    """Functions of the positions or token types of queries or keys; None: not used."""

    rotary: tuple | None = None  # cos, sin [B, L, 1, K / 2] of rotary positions
    relative: RelativeFeatures | None = None
    bucket: jax.Array | None = None  # [B, L, M] int32, of queries: of the distance
    output: jax.Array | None = None  # [B, L, C] one-hot, selects the last projection


class PreparedInputs(NamedTuple):
    """What all layers of a stack derive from the same `AttentionInputs`; opaque."""

    query: PositionFeatures
    key: PositionFeatures
    mask: Any  # the kernel's, with a method `at(scored)`
    relative_biases: Mapping[str, jax.Array] | None = None  # if all layers share them
    distances: jax.Array | None = None  # [R, D], of buckets of distances

    def at(self, scored_BP: jax.Array) -> "PreparedInputs":
        """The inputs for only the queries at the scored positions."""
        query = jax.tree.map(lambda leaf: gather_positions(leaf, scored_BP), self.query)
        if self.key.relative is not None and self.key.relative.distances is not None:
            relative = query.relative._replace(index=scored_BP)
            query = query._replace(relative=relative)
        return self._replace(query=query, mask=self.mask.at(scored_BP))


class Projections(NamedTuple):
    """What a layer's attention reads, [B, L, H, K] each.

    It has rotary positions, but no relative terms yet, and queries are not scaled yet.
    """

    query: jax.Array
    key: jax.Array
    value: jax.Array


def prepare(options: Options, inputs: AttentionInputs) -> PreparedInputs:
    """Derives what all attention layers of a stack share."""
    rotary = relative = None, None  # of queries, of keys
    if "position" in inputs.query:
        if options.position == "rotary":
            rotary = _rotary(options, inputs, options.rope_theta)
        if options.has_relative_terms:
            relative = relative_features(options, inputs)
    query, key = map(PositionFeatures, rotary, relative)
    if options.position == "disentangled":
        query = query._replace(bucket=distance_bucket(options, inputs))
    if "position" not in inputs.query and "token_type" in inputs.query:
        by_type = jax.nn.one_hot(
            inputs.query["token_type"], options.token_types, dtype=options.dtype
        )
        query = query._replace(output=by_type)
    return PreparedInputs(query, key, _make_mask(options, inputs))


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
            f"model.window is {options.window}, but to mems (objective.mem_len) all "
            "queries attend; set model.window=0"
        )
    mask = _make_mask(options, inputs._replace(window=options.window))
    if options.rope_theta_local:
        query, key = _rotary(options, inputs, options.rope_theta_local)
        prepared = prepared._replace(
            query=prepared.query._replace(rotary=query),
            key=prepared.key._replace(rotary=key),
        )
    return prepared._replace(mask=mask)


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


def _rotary(options: Options, inputs: AttentionInputs, theta: float) -> list[tuple]:
    """The angles of queries and of keys."""
    positions = inputs.query["position"], inputs.key["position"]
    width, scaling = options.rotary_width, options.rope_scaling
    return [rotary_angles(each, width, theta, scaling) for each in positions]


def _make_mask(options: Options, inputs: AttentionInputs) -> Any:
    """The mask of the kernel that `model.attention` chooses."""
    if inputs.start is not None:
        return dense_mask(inputs)  # a cache has a few queries a call
    kernel = choose_kernel(options, inputs)
    return kernel.mask(inputs, options.key_width, options.operand_dtype)


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
        with_keys: bool = False,
        with_projections: bool = False,
    ) -> Any:
        """[B, L, D] from states [B, L, D].

        Args:
          inputs: the prepared inputs of these queries and keys.
          source_BMD: states that are projected to keys and values, or these themselves;
            None: `states_BLD`.
          slots: keys and values of all slots of a cache, and the slot from which on
            those of the source are written; None: there is no cache.
          with_keys: also return the keys and values of the source.
          with_projections: also return the `Projections`.
        """
        options = self.options
        num_heads, key_width = options.heads, options.key_width
        t5 = options.init == "t5"
        bias = options.bias and options.position != "relative"
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
        if inputs.query.rotary is not None:
            query = apply_rotary(query, *inputs.query.rotary)
            key = apply_rotary(key, *inputs.key.rotary)
        projections = Projections(query, key, value)
        relative, scale = None, 1.0 if t5 else key_width**-0.5
        if inputs.query.relative is not None:
            features = inputs.query.relative, inputs.key.relative
            terms = RelativeTerms(options, scale, name="relative")
            query, key, relative = terms(query, key, *features, inputs.relative_biases)
        elif inputs.query.bucket is not None:
            scale = (3 * key_width) ** -0.5
            query, key_scaled = query * scale, key * scale
            table = dropout(self, inputs.distances[None], "position")
            of_query = project("query", table, num_heads)[0]
            of_key = jnp.repeat(project("key", table, num_kv_heads)[0], repeats, axis=1)
            relative = disentangled_logits(
                *(query, key_scaled, of_query, of_key, inputs.query.bucket),
                dtype=options.operand_dtype,
            )
        else:
            query = query * scale
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
        out = self._project_out(partial(dense, bias=bias), out, inputs.query.output)
        if with_projections:
            return out, projections
        return (out, own) if with_keys else out

    def _attend(self, query, key, value, mask, relative):
        """Attention by the kernel to which the mask belongs.

        Where parameters are drawn, which it has none of, it is left out: layers are
        drawn by `jax.vmap`, under which cuDNN's kernel refuses a mask that all share.
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
        """The output projection; with one-hot `types_BLC`, one for each token type."""
        axes = ("heads", "embed")
        layer = partial(dense, self.options.width, axes, residual=True)
        if types_BLC is None:
            return layer(name="out")(out)
        types = range(self.options.token_types)
        out_CBLD = jnp.stack([layer(name=f"out_{n}")(out) for n in types])
        return jnp.einsum("blc,cbld->bld", types_BLC, out_CBLD)
