"""Two streams, tokens and entities, fused in the upper layers (ERNIE, Zhang 2019)."""

# B batch, L length, P scored positions, D width, E entity width, N layers, F layers of
# fusion

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from research import networks
from research.contract.batch import FEATURE, input_names
from research.contract.errors import UserError
from research.contract.fields import choice
from research.networks.knowledge.encoder import (
    Encoder,
    check_options,
    encoder_fields,
    entity_options,
)
from research.networks.shared.activations import ACTIVATIONS
from research.networks.shared.dense import (
    Dense,
    Module,
    Norm,
    dropout,
    gather_positions,
)
from research.networks.shared.dense_attention import AttentionInputs
from research.networks.shared.options import depth, dim
from research.networks.transformer.attention import (
    Attention,
    PreparedInputs,
    prepare,
)
from research.networks.transformer.blocks import Block, Stack
from research.networks.transformer.options import TransformerOptions


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(TransformerOptions):
    """BERT with a second stream, of entity vectors, mixed in by the upper layers.

    A position without a vector (`batch.FEATURE` is 0) has no entity. The layers below
    the fusion do not read entities; the first layer of fusion reads their vectors
    directly, the others after attention between entities (thunlp/ERNIE at 514cbe4,
    knowledge_bert/modeling.py: layers "sim", "mix" and "norm").

    The parameters of tokens are those of BERT, with the same names.
    """

    norm_placement: str = choice("post", ("pre", "post"))  # pre is rejected
    plain_layers: int = depth(0, least=0)  # number of layers below the fusion (5 of 12
    # in the released configuration)
    entity_heads: int = dim(4, least=1)  # of attention between entities

    small_keys: ClassVar = {"entity_heads": 2}
    abilities: ClassVar = (
        networks.Ability.FULL,
        networks.Ability.INPUT_FEATURES,
    )

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        check_options(self)
        if self.plain_layers >= self.layers:
            raise UserError(
                f"model.plain_layers is {self.plain_layers}; it must be below "
                f"model.layers {self.layers}: the others are of fusion"
            )
        if ACTIVATIONS[self.activation].of_gate:
            raise UserError(
                f"model.network fusion has no gate, so model.activation must not be "
                f"{self.activation}"
            )
        width = needs.input_features
        if width % self.entity_heads:
            raise UserError(
                f"model.entity_heads is {self.entity_heads}; it must divide the width "
                f"{width} of entities"
            )
        return Fusion(self, **encoder_fields(needs, size, width))


class Fusion(Encoder):
    """An `Encoder` of tokens and entities; without entity vectors it is BERT."""

    def setup(self):
        super().setup()
        stack = FusionStack if self.entity_width else Stack
        self.stack = stack(self.options, self.pattern)

    def states(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """States [B, L, D] of tokens, or [B, P, D] at the scored positions."""
        if not self.entity_width:
            return self.stack(self.embed(group), group, scored=scored).states
        if FEATURE not in group:
            shape = (*group["token"].shape, self.entity_width)
            group = {**group, FEATURE: jnp.zeros(shape)}
        x = self.stack(self.embed(group), group)
        return x if scored is None else gather_positions(x, scored)


class FusionStack(Module):
    """Blocks, the upper ones with a second stream.

    Attributes:
      pattern: full.
    """

    options: Network
    pattern: str

    @nn.compact
    def __call__(self, x_BLD: jax.Array, group: Mapping) -> jax.Array:
        """States [B, L, D] from x and the group's arrays [B, L]."""
        options = self.options
        entity_BLE = group[FEATURE].astype(x_BLD.dtype)
        has_entity_BL = jnp.any(entity_BLE != 0, axis=-1)
        own = {name: group[name] for name in input_names(group)}
        inputs = prepare(self, options, AttentionInputs(own, own, self.pattern))
        is_key = has_entity_BL | (jnp.arange(x_BLD.shape[1]) == 0)[None]
        key = {"segment": jnp.where(is_key, group["segment"], 0)}
        of_entities = entity_options(
            options, width=entity_BLE.shape[-1], heads=options.entity_heads
        )
        query = {"segment": group["segment"]}
        entity_inputs = prepare(self, of_entities, AttentionInputs(query, key))
        block, fusion = (
            Block(options, parent=None),
            FusionBlock(options, of_entities, parent=None),
        )
        streams = entity_BLE, has_entity_BL, inputs, entity_inputs

        def init_blocks(key):
            one = lambda key: block.init(key, x_BLD, inputs)["params"]  # noqa: E731
            return _stacked(one, key, options.layers)

        def init_fusion(key):
            def one(key):
                params = fusion.init(key, x_BLD, *streams)["params"]
                return {n: p for n, p in params.items() if n.startswith("entity")}

            return _stacked(one, key, options.layers - options.plain_layers)

        blocks = self.param("blocks", init_blocks)
        fusions = self.param("fusion", init_fusion)
        x, entity = x_BLD, entity_BLE
        for layer in range(options.layers):
            params = jax.tree.map(lambda leaf, n=layer: leaf[n], blocks)
            rngs = {}
            if options.has_dropout and self.has_rng("dropout"):
                rngs = {"dropout": self.make_rng("dropout")}
            number = layer - options.plain_layers
            if number < 0:
                x = block.apply({"params": params}, x, inputs, rngs=rngs).states
                continue
            params |= jax.tree.map(lambda leaf, n=number: leaf[n], fusions)
            x, entity = fusion.apply(
                {"params": params}, x, entity, *streams[1:], raw=number == 0, rngs=rngs
            )
        return x


def _stacked(init: Any, key: jax.Array, count: int) -> Any:
    """Parameters of `count` layers, stacked."""
    params = jax.vmap(init)(jax.random.split(key, count))
    return nn.meta.add_axis(params, 0, {nn.PARTITION_NAME: "layers"})


class FusionBlock(nn.Module):
    """A block of both streams: attention in each, then a layer that mixes them.

    h = act(w W + e V + b); w' = norm(w + h W'), e' = norm(e + h V'), with w and e the
    states after attention, e = 0 without an entity (the released code; equation 4 of
    the paper has act(h W') instead, without residuals). The parameters of tokens have
    the names of `Block`.
    """

    options: Network
    entity_options: Any

    @nn.compact
    def __call__(
        self,
        x_BLD: jax.Array,
        entity_BLE: jax.Array,
        has_entity_BL: jax.Array,
        inputs: PreparedInputs,
        entity_inputs: PreparedInputs,
        *,
        raw: bool = False,
    ) -> tuple[jax.Array, jax.Array]:
        """The states of tokens, and of entities.

        Args:
          raw: entities skip the attention between them, whose parameters then have no
            effect.
        """
        options, of_entities = self.options, self.entity_options
        y = Attention(options, name="attention")(x_BLD, inputs).states
        x = Norm(options, name="attention_norm")(x_BLD + dropout(self, y, "residual"))
        attention = Attention(of_entities, name="entity_attention")
        y = attention(entity_BLE, entity_inputs).states
        y = entity_BLE + dropout(self, y, "residual")
        y = Norm(of_entities, axis=None, name="entity_attention_norm")(y)
        entity = entity_BLE if raw else y
        entity = jnp.where(has_entity_BL[..., None], entity, 0)
        mixed = FusedFeedForward(options, name="feedforward")
        to_inner = Dense(options, options.feedforward, _INNER, name="entity_in")
        h, x_out = mixed(x, to_inner(entity))
        to_entity = Dense(
            options, entity.shape[-1], _OUTER, residual=True, name="entity_out"
        )
        e_out = dropout(self, to_entity(h), "residual")
        x = x + dropout(self, x_out, "residual")
        x = Norm(options, name="feedforward_norm")(x)
        return x, Norm(of_entities, axis=None, name="entity_norm")(entity + e_out)


_INNER, _OUTER = (None, "feedforward"), ("feedforward", None)


class FusedFeedForward(nn.Module):
    """A feed-forward layer to whose hidden values another stream adds."""

    options: Network

    @nn.compact
    def __call__(self, x_BLD: jax.Array, added: jax.Array) -> tuple:
        """The hidden values [B, L, feedforward], and the output [B, L, D]."""
        options = self.options
        inner, outer = ("embed", "feedforward"), ("feedforward", "embed")
        dense = partial(Dense, options, bias=options.bias and options.feedforward_bias)
        h = dense(options.feedforward, inner, name="in")(x_BLD)
        h = ACTIVATIONS[options.activation].apply(h + added)
        h = dropout(self, h, "feedforward")
        size = x_BLD.shape[-1]
        return h, dense(size, outer, residual=True, name="out")(h)
