"""Tables: each word has a vector as input and another as output, and nothing else.

These are the networks of word2vec (Mikolov et al. 2013a, 2013b), of GloVe (Pennington
et al. 2014), which also has biases of words, and of fastText (Bojanowski et al. 2017),
whose word vectors are means of those of n-grams. The state of a position is the vector
of its token. The objective decides what is predicted from which state, and whether
states are averaged.
"""

# B batch, L length, P scored positions, D width

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from research import networks
from research.contract.errors import UserError
from research.contract.fields import choice, number
from research.networks.readouts.softmax import Readout, VocabHead
from research.networks.shared.dense import (
    Module,
    constant,
    dropout,
    gather_positions,
    uniform,
)
from research.networks.shared.embeddings import TokenEmbedding
from research.networks.shared.heads import HeadSpec, make_heads
from research.networks.words.subwords import (
    Ngrams,
    SubwordEmbedding,
    WordNgrams,
    WordRows,
    find_ngrams,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(networks.Network):
    """Two tables, or one if `tie_embeddings`; there are no layers between them."""

    table_init: str = choice(
        "init", ("init", "word2vec", "glove", "fasttext", "xavier")
    )  # initial vectors; init: by model.init; word2vec: inputs are uniform within
    # 1 / (2 width), outputs 0; glove: both and biases are uniform so; fasttext: as
    # word2vec, but within 1 / width; xavier: within sqrt(6 / (entries + width))
    buckets: int = number(0, least=0, most=2**31)  # hash values of character n-grams,
    # whose vectors are part of those of words (fastText); 0: n-grams are not read
    min_ngram: int = number(3, least=1, most=64)  # characters, including < and > at the
    # ends of a word
    max_ngram: int = number(6, least=1, most=64)
    piece_gradient: str = choice("sum", ("sum", "mean"))  # gradient of each of n pieces
    # (the word and its n-grams). sum: that of their mean, undivided (fastText's
    # vectors); mean: divided by n, the true derivative

    abilities: ClassVar = (networks.Ability.SELF, networks.Ability.TOKEN_BIAS)

    def __post_init__(self):
        super().__post_init__()
        if self.embedding_width not in (0, self.width):
            raise UserError(
                f"model.embedding_width is {self.embedding_width}, but the vectors of "
                f"model.network tables have model.width, {self.width}; set it to 0"
            )

        if self.min_ngram > self.max_ngram:
            raise UserError(
                f"model.max_ngram is {self.max_ngram}; it must be at least "
                f"model.min_ngram, {self.min_ngram}"
            )

    @property
    def ngrams(self) -> Ngrams:
        """The n-grams that words have, if `buckets` is above 0."""
        return Ngrams(self.min_ngram, self.max_ngram, self.buckets)

    @property
    def spelled_by(self) -> str:
        return f"model.buckets={self.buckets}" if self.buckets else ""

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        ngrams = None
        if self.buckets and needs.token_bias:
            raise UserError(
                "model.buckets gives vectors of n-grams, but no biases, which the "
                "objective needs; set it to 0"
            )
        if self.buckets:
            ngrams = find_ngrams(needs.spelling, self.ngrams)
        heads = tuple(needs.heads.items())
        return Tables(self, size, needs.transform, heads, ngrams, needs.token_bias)

    def word_rows(self, params: Any, spelling: Sequence[str]) -> WordRows | None:
        if not self.buckets:
            return None
        return WordRows(params["token"], spelling, self.ngrams)


class Tables(nn.Module):
    """A `networks.BoundNetwork` when bound.

    Attributes:
      size: entries of the vocabulary.
      transform: the readout has BERT's layers before the table.
      heads: the layers of each named head.
      ngrams: of words, if they are read.
      output_bias: the readout has a bias, unless `model.output_head` says otherwise.
    """

    options: Network
    size: int
    transform: bool = False
    heads: tuple[tuple[str, HeadSpec], ...] = ()
    ngrams: WordNgrams | None = None
    output_bias: bool = False

    def setup(self):
        # The names are those of the parameters in checkpoints.
        options = self.options
        drawn = uniform(0.5 / options.width, "vocab", "embed")
        none = constant(0.0, "vocab", "embed")
        xavier = (6 / (self.size + options.width)) ** 0.5
        token_init, output_init = {
            "init": (None, None),
            "word2vec": (drawn, none),
            "glove": (drawn, drawn),
            "fasttext": (uniform(1 / options.width, "vocab", "embed"), none),
            "xavier": (uniform(xavier, "vocab", "embed"),) * 2,
        }[options.table_init]
        if self.ngrams is None:
            self.token = TokenEmbedding(options, self.size, token_init)
        else:
            self.token = SubwordEmbedding(
                options, self.size, token_init, self.ngrams, options.piece_gradient
            )
        self.input_bias = TokenBias(options, self.token)
        self.output = VocabHead(
            options, self.size, self.transform, output_init, bias=self.output_bias
        )
        self.pooler, self.named_heads = make_heads(options, self.heads)

    def states(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """The vectors [B, L, D], or [B, P, D] at `scored`."""
        x = self.token(group["token"]).astype(self.options.dtype)
        x = dropout(self, x, "embedding")
        x = dropout(self, x, "output")
        return x if scored is None else gather_positions(x, scored)

    def features(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """The inputs of fine-tuning heads, which are the states."""
        return self.states(group, scored)

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head at states [..., D]."""
        return self.output(states, self.token.table_VE)

    def token_bias(self, group: Mapping) -> jax.Array:
        """Float32 [B, L]: the bias of each input token."""
        return self.input_bias(group["token"])

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., D]."""
        return self.named_heads[name](states)


class TokenBias(Module):
    """A number per entry of a vocabulary.

    Attributes:
      token: the `TokenEmbedding` whose rows it has.
    """

    options: Network
    token: nn.Module

    @nn.compact
    def __call__(self, token_BL: jax.Array) -> jax.Array:
        """[B, L]."""
        options, init = self.options, constant(0.0, "vocab")
        if options.table_init == "glove":
            init = uniform(0.5 / options.width, "vocab")
        bias_V = self.param("bias", init, (len(self.token.table_VE),))
        return jnp.take(bias_V, token_BL, mode="clip")
