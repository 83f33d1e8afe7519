"""Common parts of encoders with entities: embeddings, readout, heads, options."""

# B batch, L length, P scored positions, D width

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
from flax import linen as nn

from research import networks
from research.contract.batch import FEATURE
from research.contract.errors import UserError
from research.networks.readouts.softmax import Readout, VocabHead
from research.networks.shared.embeddings import TokenEmbedding
from research.networks.shared.heads import HeadSpec, make_heads
from research.networks.transformer.input_embeddings import InputEmbedding
from research.networks.transformer.options import (
    ONLY_BESIDE_AN_ENCODER,
    TransformerOptions,
)

PLAIN = {
    "norm_placement": "post",
    "layer_dropout": 0.0,
    "output_dropout": 0.0,
    "shared_layers": False,
    "num_kv_heads": 0,
    "window": 0,
    "quantization": "none",
    "parallel_residual": False,
    **ONLY_BESIDE_AN_ENCODER,
}
"""Keys of `model` -> the only value that encoders with entities support."""


def check_options(options: Any) -> None:
    """Raises UserError: a key of `model` does not have BERT's value."""
    options.check_one_softmax(f"is not for model.network {options.name}")
    for key, value in PLAIN.items():
        if getattr(options, key) != value:
            raise UserError(
                f"model.network {options.name} needs model.{key} {value}, not "
                f"{getattr(options, key)}: its layers are BERT's"
            )
    if options.scheme.is_in_attention or options.logit_features:
        raise UserError(
            f"model.network {options.name} has attention between entities, which have "
            "no positions; model.position must be added to embeddings, such as "
            f"learned, got {options.position}"
        )


def entity_options(options: TransformerOptions, **changes: Any) -> TransformerOptions:
    """The options of layers whose states are those of entities."""
    return dataclasses.replace(
        options, head_width=0, embedding_width=0, scan_unroll=1, **changes
    )


class Encoder(nn.Module):
    """The base of modules that are `networks.BoundNetwork` when bound.

    Attributes:
      size: entries of the vocabulary.
      pattern: the objective's promise about rank and reach: full | general.
      transform: the readout has BERT's layers before the table.
      heads: the layers of each named head.
      entity_width: of the vectors of entities.
    """

    options: TransformerOptions
    size: int
    pattern: str = "full"
    transform: bool = False
    heads: tuple[tuple[str, HeadSpec], ...] = ()
    entity_width: int = 0

    def setup(self):
        # The names are those of the parameters in checkpoints.
        options = self.options
        self.token = TokenEmbedding(options, self.size)
        self.embedding = InputEmbedding(options, name="embeddings")
        self.output = VocabHead(options, self.size, self.transform)
        self.pooler, self.named_heads = make_heads(options, self.heads)

    def embed(self, group: Mapping) -> jax.Array:
        """[B, L, E]: tokens, positions and token types."""
        group = {name: x for name, x in group.items() if name != FEATURE}
        token = group["token"]
        return self.embedding(self.token(token), group, length=token.shape[1])

    def features(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """The inputs of fine-tuning heads, which are the states."""
        return self.states(group, scored)

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head at states [..., D]."""
        return self.output(states, self.token.table_VE)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., D]."""
        return self.named_heads[name](states)


def encoder_fields(needs: networks.Needs, size: int, entity_width: int) -> dict:
    """The attributes of an `Encoder` that meets these needs, except its options."""
    return {
        "size": size,
        "pattern": needs.pattern,
        "transform": needs.transform,
        "heads": tuple(needs.heads.items()),
        "entity_width": entity_width,
    }
