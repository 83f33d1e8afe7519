"""Two streams, of a text and an image, with co-attention (ViLBERT, Lu et al. 2019)."""

# B batch, L length of a text, N positions of an image, P scored positions, D width

import dataclasses
from collections.abc import Mapping
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
)
from research.networks.shared.dense import (
    FeedForward,
    Module,
    Norm,
    dropout,
    gather_positions,
)
from research.networks.shared.dense_attention import AttentionInputs
from research.networks.shared.options import depth, dim
from research.networks.transformer import transformer
from research.networks.transformer.attention import Attention, PreparedInputs, prepare
from research.networks.transformer.blocks import Block
from research.networks.transformer.input_embeddings import InputEmbedding


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(transformer.Network):
    """BERT for the text, and a second stack for the image at the end of its row.

    The lower layers read the text alone. Before each of the upper ones both streams
    attend to each other, from the states that they had, and then the image has a layer
    of its own (jiasenlu/vilbert_beta at f0c9a2b, vilbert/vilbert.py, BertEncoder). Both
    streams have model.width.

    Of rows without an image it is BERT, and the parameters of the text's layers have
    the names of BERT's.
    """

    norm_placement: str = choice("post", ("pre", "post"))  # pre is refused
    co_layers: int = depth(2, least=1)  # upper layers, of model.layers, before which
    # the streams attend to each other; the image has as many layers
    image_heads: int = dim(0, least=0)  # of the image's layers and of co-attention; 0:
    # heads
    image_feedforward: int = dim(0, least=0)  # of the image; 0: feedforward

    abilities: ClassVar = (
        networks.Ability.FULL,
        networks.Ability.GENERAL,
        networks.Ability.INPUT_FEATURES,
    )

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        check_options(self)
        if not needs.image_positions:
            return super().module(needs, size)
        if self.co_layers > self.layers:
            raise UserError(
                f"model.co_layers is {self.co_layers}; it must be at most model.layers "
                f"{self.layers}, of which it counts the upper ones"
            )
        if self.image_heads and self.width % self.image_heads:
            raise UserError(
                f"model.image_heads is {self.image_heads}; it must divide model.width "
                f"{self.width}"
            )
        fields = encoder_fields(needs, size, needs.input_features)
        return TwoStreams(self, **fields, num_image=needs.image_positions)


class TwoStreams(Encoder):
    """An `Encoder` of rows that end with the positions of an image.

    Attributes:
      num_image: N.
    """

    num_image: int = 0

    def setup(self):
        super().setup()
        self.image_embedding = InputEmbedding(self.options, name="image_embeddings")
        self.stack = StreamStack(self.options, self.num_image)

    def states(
        self, group: Mapping, scored: jax.Array | None = None, **options: Any
    ) -> jax.Array:
        """States [B, L + N, D], or [B, P, D] at the scored positions."""
        text, image = split(group, self.num_image)
        token = self.token(image["token"])
        image_BND = self.image_embedding(token, image, length=self.num_image)
        x = self.stack(self.embed(text), image_BND, text, image)
        return x if scored is None else gather_positions(x, scored)


def split(group: Mapping, count: int) -> tuple[dict, dict]:
    """The arrays of the text, and those of the image, its last `count` positions."""
    names = (*input_names(group), *({FEATURE} & group.keys()))
    text = {name: group[name][:, :-count] for name in names}
    return text, {name: group[name][:, -count:] for name in names}


class StreamStack(Module):
    """The layers of both streams."""

    options: Network
    num_image: int

    @nn.compact
    def __call__(
        self, text_BLD: jax.Array, image_BND: jax.Array, text: Mapping, image: Mapping
    ) -> jax.Array:
        """States [B, L + N, D] from both embeddings and their arrays."""
        options = self.options
        of_image = dataclasses.replace(
            options,
            heads=options.image_heads or options.heads,
            head_width=0,
            num_kv_heads=0,
            feedforward=options.image_feedforward or options.feedforward,
        )
        own = [
            prepare(each, AttentionInputs(*(_attended(group),) * 2, "full"))
            for each, group in ((options, text), (of_image, image))
        ]
        segments = [{"segment": group["segment"]} for group in (text, image)]
        across = [
            prepare(of_image, AttentionInputs(query, key))
            for query, key in (segments, segments[::-1])
        ]
        block = Block(options, parent=None)
        co_block = CoBlock(options, of_image, parent=None)

        def init_blocks(key):
            one = lambda key: block.init(key, text_BLD, own[0])["params"]  # noqa: E731
            return _stacked(one, key, options.layers)

        def init_upper(key):
            def one(key):
                streams = text_BLD, image_BND, across, own[1]
                return co_block.init(key, *streams)["params"]

            return _stacked(one, key, options.co_layers)

        blocks = self.param("blocks", init_blocks)
        upper = self.param("fusion", init_upper)
        x, y = text_BLD, image_BND

        def rngs():
            if options.has_dropout and self.has_rng("dropout"):
                return {"dropout": self.make_rng("dropout")}
            return {}

        for layer in range(options.layers):
            number = layer - (options.layers - options.co_layers)
            if number >= 0:
                params = jax.tree.map(lambda leaf, n=number: leaf[n], upper)
                x, y = co_block.apply(
                    {"params": params}, x, y, across, own[1], rngs=rngs()
                )
            params = jax.tree.map(lambda leaf, n=layer: leaf[n], blocks)
            x = block.apply({"params": params}, x, own[0], rngs=rngs())
        return jnp.concatenate([x, y], axis=1)


def _attended(group: Mapping) -> dict:
    """The arrays that attention reads."""
    return {name: group[name] for name in input_names(group)}


def _stacked(init: Any, key: jax.Array, count: int) -> Any:
    """Parameters of `count` layers, stacked."""
    params = jax.vmap(init)(jax.random.split(key, count))
    return nn.meta.add_axis(params, 0, {nn.PARTITION_NAME: "layers"})


class CoBlock(nn.Module):
    """Both streams attend to the old states of the other; then the image's block."""

    options: Network
    image_options: Network

    @nn.compact
    def __call__(
        self,
        text_BLD: jax.Array,
        image_BND: jax.Array,
        across: list[PreparedInputs],
        inputs: PreparedInputs,
    ) -> tuple[jax.Array, jax.Array]:
        """The states of the text and of the image.

        Args:
          across: of the text's queries and the image's keys, and the reverse.
          inputs: of the image.
        """
        options, of_image = self.options, self.image_options
        co_text = dataclasses.replace(of_image, feedforward=options.feedforward)
        text = CrossBlock(co_text, name="text")(text_BLD, image_BND, across[0])
        image = CrossBlock(of_image, name="image")(image_BND, text_BLD, across[1])
        return text, Block(of_image, name="image_block")(image, inputs)


class CrossBlock(nn.Module):
    """Attention to another stream, then a feed-forward layer."""

    options: Network

    @nn.compact
    def __call__(
        self, x_BLD: jax.Array, other_BMD: jax.Array, inputs: PreparedInputs
    ) -> jax.Array:
        """The states [B, L, D]."""
        options = self.options
        y = Attention(options, name="attention")(x_BLD, inputs, source_BMD=other_BMD)
        x = Norm(options, name="attention_norm")(x_BLD + dropout(self, y, "residual"))
        y = FeedForward(options, name="feedforward")(x)
        return Norm(options, name="feedforward_norm")(x + dropout(self, y, "residual"))
