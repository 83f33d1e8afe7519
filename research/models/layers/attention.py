"""The attention layer: projections, terms of positions, and attention itself.

Stacks hand over `AttentionInputs`, the batch's integer arrays, to `prepare`, and blocks
pass on its opaque result, whose mask is that of the implementation which
`model.attention` chooses: dense, or a kernel.
"""

# B batch, L queries, M keys, H heads, K head width, D width, P scored positions,
# C token types

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.models.layers.dense import Dense, dropout, gather_positions
from research.models.layers.dense_attention import (
    AttentionInputs,
    DenseMask,
    dense_attention,
    dense_mask,
)
from research.models.layers.positions import apply_rotary, rotary_angles
from research.models.layers.relative import (
    RelativeFeatures,
    RelativeTerms,
    relative_features,
)
from research.models.options import Options


class PositionFeatures(NamedTuple):
    """Functions of the positions of queries or keys; None: not part of the logits."""

    rotary: tuple | None = None  # cos, sin [B, L, 1, K / 2] of rotary positions
    relative: RelativeFeatures | None = None
    output: jax.Array | None = None  # [B, L, C] one-hot, of the layer after attention


class PreparedInputs(NamedTuple):
    """What all layers of a stack derive from the same `AttentionInputs`; opaque."""

    query: PositionFeatures
    key: PositionFeatures
    mask: Any  # of the implementation, with a method `at(scored)`
    relative_biases: Mapping[str, jax.Array] | None = None  # of all layers together

    def at(self, scored_BP: jax.Array) -> "PreparedInputs":
        """The same for the queries at the scored positions alone."""
        query = jax.tree.map(lambda leaf: gather_positions(leaf, scored_BP), self.query)
        return self._replace(query=query, mask=self.mask.at(scored_BP))


def prepare(options: Options, inputs: AttentionInputs) -> PreparedInputs:
    """Derives once per stack what is the same in all of its attention layers."""
    rotary = relative = None, None  # of queries, of keys
    if "position" in inputs.query:
        if options.position == "rotary":
            positions = inputs.query["position"], inputs.key["position"]
            rotary = [
                rotary_angles(each, options.key_width, options.rope_theta)
                for each in positions
            ]
        if "relative" in (options.position, options.token_type_encoding):
            relative = relative_features(options, inputs)
    query, key = map(PositionFeatures, rotary, relative)
    if "position" not in inputs.query and "token_type" in inputs.query:
        by_type = jax.nn.one_hot(
            inputs.query["token_type"], options.token_types, dtype=options.dtype
        )
        query = query._replace(output=by_type)
    return PreparedInputs(query, key, _make_mask(options, inputs))


def _make_mask(options: Options, inputs: AttentionInputs) -> Any:
    """The mask of the implementation that `model.attention` chooses."""
    if options.attention == "dense":
        return dense_mask(inputs)
    # Pallas takes a second to import.
    from research.models.layers.kernel_attention import interval_mask

    return interval_mask(inputs, interpret=platform() != "tpu")


def platform() -> str:
    """That of the mesh, whose devices need not be present; else of JAX."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    return jax.default_backend() if device is None else device.platform


class Attention(nn.Module):
    """Multi-head attention, to the states themselves or to others."""

    options: Options

    @nn.compact
    def __call__(
        self,
        states_BLD: jax.Array,
        inputs: PreparedInputs,
        *,
        source_BMD: jax.Array | None = None,
    ) -> jax.Array:
        """[B, L, D] from states [B, L, D].

        Args:
          inputs: of these queries and keys.
          source_BMD: states that keys and values are made of; None: `states_BLD`.
        """
        options = self.options
        num_heads, key_width = options.heads, options.key_width
        inner, outer = ("embed", "heads"), ("heads", "embed")
        t5 = options.init == "t5"
        init_scales = {
            "query": key_width**-0.5 if t5 else 1.0,
            "key": 1.0,
            "value": 1.0,
        }
        dense = partial(Dense, options, bias=options.position != "relative")

        def project(name, state, count=num_heads):
            layer = dense(count * key_width, inner, scale=init_scales[name], name=name)
            heads = layer(state).reshape(*state.shape[:2], count, key_width)
            if count == num_heads:
                return heads
            return jnp.repeat(heads, num_heads // count, axis=2)

        source = states_BLD if source_BMD is None else source_BMD
        query = project("query", states_BLD)
        num_kv_heads = options.num_kv_heads or num_heads
        key = project("key", source, num_kv_heads)
        value = project("value", source, num_kv_heads)
        if inputs.query.rotary is not None:
            query = apply_rotary(query, *inputs.query.rotary)
            key = apply_rotary(key, *inputs.key.rotary)
        relative, scale = None, 1.0 if t5 else key_width**-0.5
        if inputs.query.relative is not None:
            features = inputs.query.relative, inputs.key.relative
            terms = RelativeTerms(options, scale, name="relative")
            query, key, relative = terms(query, key, *features, inputs.relative_biases)
        else:
            query = query * scale
        mask, drop = inputs.mask, None
        if options.dropout_rate("attention") and self.has_rng("dropout"):
            drop = partial(dropout, self, place="attention")
        if isinstance(mask, DenseMask):
            out = dense_attention(query, key, value, mask, relative=relative, drop=drop)
        else:
            out = mask.attend(query, key, value)
        out = out.reshape(*out.shape[:2], options.attention_width)
        dense_out = partial(dense, options.width, outer, residual=True)
        if inputs.query.output is None:
            return dense_out(name="out")(out)
        by_type = [dense_out(name=f"out_{n}")(out) for n in range(options.token_types)]
        return jnp.einsum("blc,cbld->bld", inputs.query.output, jnp.stack(by_type))
