"""Two streams, for text and image, with co-attention: ViLBERT, LXMERT."""

# B batch, L length of a text, N positions of an image, P scored positions, D width
# F values of a position's vector, T texts that are read once

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
    Dense,
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

    The lower layers read only the text. Before each of the upper ones both streams
    attend to each other's states as they were, and then the image has its own layer
    (ViLBERT, Lu et al. 2019; jiasenlu/vilbert_beta at f0c9a2b, vilbert/vilbert.py,
    BertEncoder). Both streams have model.width.

    LXMERT (Tan and Bansal 2019; airsplay/lxmert at 0db1182, src/lxrt/modeling.py) has
    `image_layers` for only the image before these, one attention for both directions
    (`cross` shared), and `image_embedding` mean.

    For rows without an image it is BERT, and the parameters of the text's layers have
    BERT's names.
    """

    norm_placement: str = choice("post", ("pre", "post"))  # pre is rejected
    co_layers: int = depth(2, least=1)  # number of upper layers before which the
    # streams attend to each other; the image has as many layers
    image_heads: int = dim(0, least=0)  # of the image's layers and of co-attention; 0:
    # heads
    image_feedforward: int = dim(0, least=0)  # of the image; 0: feedforward
    image_layers: int = depth(0, least=0)  # layers for only the image, before those
    cross: str = choice("separate", ("separate", "shared"))  # attention to the other
    # stream. separate: each stream has its own, and a feed-forward layer after it;
    # shared: one for both
    image_embedding: str = choice("sum", ("sum", "mean"))  # of a region. sum: token,
    # position, token type, pixels and box, then a norm; mean: of the normed projections
    # of pixels and of the box, without the others

    scales_with_width = False
    small_keys: ClassVar = {"co_layers": 1, "image_heads": 2, "image_feedforward": 24}
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
        if self.cross == "shared" and self.image_heads not in (0, self.heads):
            raise UserError(
                f"model.cross shared needs model.image_heads 0 or model.heads "
                f"{self.heads}, got {self.image_heads}: both streams have one attention"
            )
        if needs.text_features:
            raise UserError(
                "model.network two_streams has no picture beside words; set "
                "objective.text_reads=words"
            )
        fields = encoder_fields(needs, size, needs.input_features)
        images = needs.image_positions, needs.box_features
        return TwoStreams(self, **fields, num_image=images[0], num_box=images[1])


class TwoStreams(Encoder):
    """An `Encoder` of rows that end with the positions of an image.

    Attributes:
      num_image: N.
      num_box: how many of the F values, the last ones, are a box.
    """

    num_image: int = 0
    num_box: int = 0

    def setup(self):
        super().setup()
        name = "image_embeddings"
        if self.options.image_embedding == "mean":
            self.image_embedding = MeanEmbedding(self.options, self.num_box, name=name)
        else:
            self.image_embedding = InputEmbedding(self.options, name=name)
        self.stack = StreamStack(self.options, self.num_image)

    def states(
        self,
        group: Mapping,
        scored: jax.Array | None = None,
        *,
        text_copies: int = 1,
    ) -> jax.Array:
        """See `BoundNetwork.states`: [B, L + N, D], or [B, P, D] at `scored`."""
        text, image = split(group, self.num_image)
        token = self.token(image["token"])
        image_BND = self.image_embedding(token, image, length=self.num_image)
        num_texts = len(token) // text_copies
        once = {name: array[:num_texts] for name, array in text.items()}
        x = self.stack(self.embed(once), image_BND, (once, text), image)
        return x if scored is None else gather_positions(x, scored)


class MeanEmbedding(Module):
    """The mean of normed projections of pixels and of a box (LXMERT, section 2.1)."""

    options: Network
    num_box: int

    @nn.compact
    def __call__(self, x_BND: jax.Array, group: Mapping, *, length: int) -> jax.Array:
        """[B, N, D] from only the vectors [B, N, F]."""
        options, vectors = self.options, group[FEATURE]
        if not self.num_box:
            raise UserError(
                "model.image_embedding mean is that of pixels and a box; set "
                "objective.box"
            )
        parts = {"pixels": vectors[..., : -self.num_box]}
        parts["box"] = vectors[..., -self.num_box :]
        total = jnp.zeros_like(x_BND)
        for name, values in parts.items():
            dense = Dense(options, x_BND.shape[-1], (None, "embed"), name=name)
            total += Norm(options, name=f"{name}_norm")(
                dense(values.astype(x_BND.dtype))
            )
        return dropout(self, (total / 2).astype(options.dtype), "embedding")


def split(group: Mapping, count: int) -> tuple[dict, dict]:
    """The arrays of the text and of the image, the last `count` positions."""
    names = (*input_names(group), *({FEATURE} & group.keys()))
    text = {name: group[name][:, :-count] for name in names}
    return text, {name: group[name][:, -count:] for name in names}


class StreamStack(Module):
    """The layers of both streams."""

    options: Network
    num_image: int

    @nn.compact
    def __call__(
        self,
        text_TLD: jax.Array,
        image_BND: jax.Array,
        texts: tuple[Mapping, Mapping],
        image: Mapping,
    ) -> jax.Array:
        """States [B, L + N, D] from both embeddings and their arrays.

        Args:
          text_TLD: of the first T rows, whose texts the other rows repeat.
          texts: the arrays of T rows, and of all.
        """
        options, (once, text) = self.options, texts
        of_image = dataclasses.replace(
            options,
            heads=options.image_heads or options.heads,
            head_width=0,
            num_kv_heads=0,
            feedforward=options.image_feedforward or options.feedforward,
        )
        own = [
            prepare(self, each, AttentionInputs(*(_attended(group),) * 2, "full"))
            for each, group in ((options, once), (of_image, image), (options, text))
        ]
        segments = [{"segment": group["segment"]} for group in (text, image)]
        across = [
            prepare(self, of_image, AttentionInputs(query, key))
            for query, key in (segments, segments[::-1])
        ]

        def copies(x_TLD: jax.Array) -> jax.Array:
            return jnp.tile(x_TLD, (len(image_BND) // len(x_TLD), 1, 1))

        block = Block(options, parent=None)
        co_block = CoBlock(options, of_image, parent=None)

        image_block = Block(of_image, parent=None)

        def init_blocks(key):
            one = lambda key: block.init(key, text_TLD, own[0])["params"]  # noqa: E731
            return _stacked(one, key, options.layers)

        def init_image(key):
            one = lambda key: image_block.init(key, image_BND, own[1])["params"]  # noqa: E731
            return _stacked(one, key, options.image_layers)

        def init_upper(key):
            def one(key):
                streams = copies(text_TLD), image_BND, across, own[1]
                return co_block.init(key, *streams)["params"]

            return _stacked(one, key, options.co_layers)

        blocks = self.param("blocks", init_blocks)
        upper = self.param("fusion", init_upper)
        x, y, of_text = text_TLD, image_BND, own[0]

        def rngs():
            if options.has_dropout and self.has_rng("dropout"):
                return {"dropout": self.make_rng("dropout")}
            return {}

        if options.image_layers:
            lower = self.param("image_blocks", init_image)
            for layer in range(options.image_layers):
                params = jax.tree.map(lambda leaf, n=layer: leaf[n], lower)
                of_layer = {"params": params}
                y = image_block.apply(of_layer, y, own[1], rngs=rngs()).states
        for layer in range(options.layers):
            number = layer - (options.layers - options.co_layers)
            if number == 0:
                x, of_text = copies(x), own[2]
            if number >= 0:
                params = jax.tree.map(lambda leaf, n=number: leaf[n], upper)
                x, y = co_block.apply(
                    {"params": params}, x, y, across, own[1], rngs=rngs()
                )
            params = jax.tree.map(lambda leaf, n=layer: leaf[n], blocks)
            x = block.apply({"params": params}, x, of_text, rngs=rngs()).states
        return jnp.concatenate([x, y], axis=1)


def _attended(group: Mapping) -> dict:
    """The arrays that attention reads."""
    return {name: group[name] for name in input_names(group)}


def _stacked(init: Any, key: jax.Array, count: int) -> Any:
    """Parameters of `count` layers, stacked."""
    params = jax.vmap(init)(jax.random.split(key, count))
    return nn.meta.add_axis(params, 0, {nn.PARTITION_NAME: "layers"})


class CoBlock(nn.Module):
    """Both streams attend to the other's old states; then the image's block follows."""

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
          across: inputs for the text's queries and the image's keys, and vice versa.
          inputs: of the image.
        """
        options, of_image = self.options, self.image_options
        if options.cross == "shared":
            attend = CrossBlock(options, has_feedforward=False, name="cross")
            text = attend(text_BLD, image_BND, across[0])
            image = attend(image_BND, text_BLD, across[1])
        else:
            co_text = dataclasses.replace(of_image, feedforward=options.feedforward)
            text = CrossBlock(co_text, name="text")(text_BLD, image_BND, across[0])
            image = CrossBlock(of_image, name="image")(image_BND, text_BLD, across[1])
        return text, Block(of_image, name="image_block")(image, inputs).states


class CrossBlock(nn.Module):
    """Attention to another stream, then an optional feed-forward layer."""

    options: Network
    has_feedforward: bool = True

    @nn.compact
    def __call__(
        self, x_BLD: jax.Array, other_BMD: jax.Array, inputs: PreparedInputs
    ) -> jax.Array:
        """The states [B, L, D]."""
        options = self.options
        attention = Attention(options, name="attention")
        y = attention(x_BLD, inputs, source_BMD=other_BMD).states
        x = Norm(options, name="attention_norm")(x_BLD + dropout(self, y, "residual"))
        if not self.has_feedforward:
            return x
        y = FeedForward(options, name="feedforward")(x)
        return Norm(options, name="feedforward_norm")(x + dropout(self, y, "residual"))
