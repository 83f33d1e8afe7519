"""Words that attend to linked entities between two layers (Peters et al. 2019)."""

# B batch, L length, P scored positions, D width, S mentions, C candidates, E width of
# entities

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from research import networks
from research.contract.batch import SPANS
from research.contract.errors import UserError
from research.contract.fields import choice, number
from research.networks.knowledge.encoder import (
    Encoder,
    check_options,
    encoder_fields,
    entity_options,
)
from research.networks.shared.dense import (
    Dense,
    FeedForward,
    Module,
    Norm,
    constant,
    dropout,
    normal,
)
from research.networks.shared.dense_attention import AttentionInputs
from research.networks.shared.options import depth, dim
from research.networks.shared.protocol import Outputs, StatesOfOutputs
from research.networks.transformer.attention import Attention, prepare
from research.networks.transformer.blocks import Block, Stack
from research.networks.transformer.options import TransformerOptions

SCORE_WIDTH = 100
"""Width of the layer that scores candidates (allenai/kb at 4c37bbc, entity_linking.py).
"""

ABSENT = -10_000.0
"""The score of a missing candidate."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(TransformerOptions):
    """BERT with a component that links mentions and lets words attend to entities.

    It follows layer `link_after`, starts near the identity, and has its parameters in
    "kar"; the others are BERT's, with the same names. `Kar` describes its steps.
    """

    norm_placement: str = choice("post", ("pre", "post"))  # pre is rejected
    link_after: int = depth(1, least=1)  # layers below the component (10 of 12 for
    # Wikipedia and for only WordNet: after layer 9, counted from 0)
    weighting: str = choice("margin", ("margin", "softmax"))  # of candidates; margin:
    # a softmax over those with a score above `threshold`; softmax: over all
    threshold: float = number(
        0.0, least=-1e6, most=1e6
    )  # of scores, with weighting margin
    entity_heads: int = dim(4, least=1)  # of attention between and to mentions
    entity_feedforward: int = dim(1024, least=1)  # of their feed-forward layers

    small_keys: ClassVar = {"entity_heads": 2, "entity_feedforward": 24}
    abilities: ClassVar = (
        networks.Ability.FULL,
        networks.Ability.SPANS,
    )

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        check_options(self)
        if needs.span_width and self.link_after >= self.layers:
            raise UserError(
                f"model.link_after is {self.link_after}; it must be below model.layers "
                f"{self.layers}"
            )
        if needs.span_width % self.entity_heads:
            raise UserError(
                f"model.entity_heads is {self.entity_heads}; it must divide the width "
                f"{needs.span_width} of entities"
            )
        return KarEncoder(self, **encoder_fields(needs, size, needs.span_width))


class KarEncoder(StatesOfOutputs, Encoder):
    """An `Encoder` with the component between two of its layers.

    For groups without mentions it is BERT.
    """

    def setup(self):
        super().setup()
        self.stack = Stack(self.options, self.pattern)
        self.kar = Kar(self.options, self.entity_width)

    def outputs(self, group: Mapping, scored: jax.Array | None = None) -> Outputs:
        """The states, and the scores [B, S, C] of the candidates of mentions."""
        if SPANS[0] not in group:
            return Outputs(self.stack(self.embed(group), group, scored=scored).states)
        below = jnp.arange(self.options.layers) < self.options.link_after
        x = self.stack(self.embed(group), group, runs=below).states
        x, scores = self.kar(x, group)
        x = self.stack(x, group, scored=scored, runs=~below).states
        return Outputs(x, links=scores)


class Kar(Module):
    """The component, with the numbers of section 3.2 of Peters et al. 2019.

    1. H' = H W, of width E.
    2. A mention's vector is the mean of its H', weighted by a softmax of learned scores
       of tokens, then a norm.
    3. One block of attention between the mentions of a text.
    4. A candidate's score is a layer of (s e / sqrt(E), prior).
    5. Its entity is the weighted sum of the candidates' vectors (`Network.weighting`),
       or a learned vector if none is above the threshold.
    6. s' = norm(s + dropout(entity)).
    7. Words attend to all s' of their text: a block with these as keys and values.
    8. norm(H + dropout(H'' V)), where V is initialised as the pseudo-inverse of W.
    """

    options: Network
    entity_width: int

    @nn.compact
    def __call__(self, x_BLD: jax.Array, group: Mapping) -> tuple[jax.Array, jax.Array]:
        """The states [B, L, D], and the scores [B, S, C] of candidates.

        Args:
          group: has the six arrays and SPANS of `research.contract.batch`.
        """
        options, width = self.options, self.entity_width
        own = entity_options(
            options,
            width=width,
            heads=options.entity_heads,
            feedforward=options.entity_feedforward,
        )
        axes, full_width = (None, None), x_BLD.shape[-1]
        init = normal(options, 0.02, "embed", None)
        down_DE = self.param("down", init, (full_width, width))
        down_bias = self.param("down_bias", constant(0.0, None), (width,))

        def init_up(key):
            # boxed by its logical axes as any other kernel
            inverse = jnp.linalg.pinv(jnp.asarray(down_DE, jnp.float32))
            return nn.with_logical_partitioning(lambda key: inverse, (None, "embed"))(
                key
            )

        up_ED = self.param("up", init_up)
        up_bias = self.param("up_bias", constant(0.0, "embed"), (full_width,))
        h_BLE = _affine(x_BLD, down_DE, down_bias)

        span_BSE = self._pool(h_BLE, group)
        span_BSE = Norm(own, axis=None, name="span_norm")(span_BSE)
        segment = {"segment": group["span_segment"]}
        between = prepare(self, own, AttentionInputs(segment, segment))
        span_BSE = Block(own, name="span_block")(span_BSE, between).states

        candidate_BSCE = group["span_candidate"].astype(h_BLE.dtype)
        candidate_BSCE = Norm(own, axis=None, name="entity_norm")(candidate_BSCE)
        prior_BSC = group["span_prior"]
        dot = jnp.einsum("bse,bsce->bsc", span_BSE, candidate_BSCE) / width**0.5
        pair = jnp.stack([dot, prior_BSC.astype(dot.dtype)], axis=-1)
        hidden = nn.relu(Dense(own, SCORE_WIDTH, axes, name="score_in")(pair))
        score_BSC = Dense(own, 1, axes, name="score_out")(hidden)[..., 0]
        score_BSC = score_BSC.astype(jnp.float32)
        is_there = prior_BSC > 0
        score_BSC = jnp.where(is_there, score_BSC, ABSENT)

        entity_BSE = self._entity(score_BSC, is_there, candidate_BSCE)
        span_BSE = span_BSE + dropout(self, entity_BSE, "residual")
        span_BSE = Norm(own, axis=None, name="linked_norm")(span_BSE)

        words = prepare(
            self, own, AttentionInputs({"segment": group["segment"]}, segment)
        )
        attention = Attention(own, name="attention")
        y = attention(h_BLE, words, source_BMD=span_BSE).states
        y = h_BLE + dropout(self, y, "residual")
        y = Norm(own, axis=None, name="attention_norm")(y)
        z = y + dropout(self, FeedForward(own, name="feedforward")(y), "residual")
        z = Norm(own, axis=None, name="feedforward_norm")(z)
        up = dropout(self, _affine(z, up_ED, up_bias), "residual")
        x = Norm(options, name="norm")(x_BLD + up)
        return x, score_BSC

    def _pool(self, h_BLE: jax.Array, group: Mapping) -> jax.Array:
        """[B, S, E]: the self-attentive mean of each mention's tokens."""
        axes = (None, None)
        score_BL = Dense(self.options, 1, axes, name="pool")(h_BLE)[..., 0]
        position = jnp.arange(h_BLE.shape[1])[None, None]
        start, end = (group[f"span_{name}"][..., None] for name in ("start", "end"))
        inside_BSL = (start <= position) & (position <= end)
        logit = jnp.where(inside_BSL, score_BL[:, None].astype(jnp.float32), -jnp.inf)
        weight_BSL = jax.nn.softmax(logit, axis=-1).astype(h_BLE.dtype)
        return jnp.einsum("bsl,ble->bse", weight_BSL, h_BLE)

    def _entity(self, score_BSC, is_there, candidate_BSCE) -> jax.Array:
        """[B, S, E]: the entity of each mention."""
        options, width = self.options, self.entity_width
        kept = is_there
        if options.weighting == "margin":
            kept &= score_BSC > options.threshold
        # a table of one row, which decays as embeddings do
        none_1E = self.param("none", normal(options, 0.02, None, None), (1, width))
        weight = jax.nn.softmax(jnp.where(kept, score_BSC, ABSENT), axis=-1)
        weight = jnp.where(kept, weight, 0).astype(candidate_BSCE.dtype)
        found = jnp.einsum("bsc,bsce->bse", weight, candidate_BSCE)
        return jnp.where(kept.any(axis=-1)[..., None], found, none_1E[None])


def _affine(x: jax.Array, kernel: jax.Array, bias: jax.Array) -> jax.Array:
    """x @ kernel + bias, of x [B, L, any]."""
    return x @ kernel.astype(x.dtype) + bias.astype(x.dtype)[None, None]
