"""The neural probabilistic language model of Bengio et al. 2003: a window of words.

x concatenates the vectors of the last words, latest first. The logits of the next word
are y = b + W x + U tanh(d + H x) (section 2, equation 1). W, the direct connections, is
optional. The output table is U and W concatenated, so that a state is tanh(d + H x)
followed by x.
"""

# B batch, L length, P scored positions, C words of a context, E width of the vectors,
# M = C - 1 words before a row, D width of a state: model.width, and C E if `direct`

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from research import networks
from research.contract.fields import number
from research.networks.readouts.softmax import Readout, VocabHead
from research.networks.shared.dense import Dense, Module, dropout, gather_positions
from research.networks.shared.embeddings import TokenEmbedding
from research.networks.shared.heads import HeadSpec, make_heads
from research.networks.shared.protocol import Outputs, StatesOfOutputs


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(networks.Network):
    """Hidden layers of `width` units on top of the vectors of a window of words.

    A window ends where its segment begins: words before that have the vector 0. The
    paper has one layer and a separate output table (`tie_embeddings` False); before a
    shared token table the state is projected.
    """

    context: int = number(4, least=2, most=2**10)  # words that a position reads,
    # including its own; n - 1 for an n-gram
    direct: bool = False  # logits also have a linear term in the vectors

    small_keys: ClassVar = {"context": 12}
    abilities: ClassVar = (networks.Ability.CAUSAL, networks.Ability.MEMS)

    @property
    def state_width(self) -> int:
        """D."""
        return self.width + self.context * self.table_width * self.direct

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        return NNLM(self, size, needs.transform, tuple(needs.heads.items()))


class Words(NamedTuple):
    """The vectors of the last words before a position; it is also the cache."""

    vector: jax.Array  # [B, M, E]
    segment: jax.Array  # [B, M] of each; 0: no word

    def select_rows(self, row: jax.Array) -> "Words":
        """The words of the rows with these indices [B]."""
        return jax.tree.map(lambda x: jnp.take(x, row, 0, mode="clip"), self)

    def repeat_rows(self, count: int) -> "Words":
        """The words with each row repeated `count` times in succession."""
        return jax.tree.map(lambda x: jnp.repeat(x, count, 0), self)


class NNLM(StatesOfOutputs, nn.Module):
    """A `networks.BoundNetwork` when bound.

    Attributes:
      size: entries of the vocabulary.
      transform: the readout has BERT's layers before the table.
      heads: the layers of each named head.
    """

    options: Network
    size: int
    transform: bool = False
    heads: tuple[tuple[str, HeadSpec], ...] = ()

    def setup(self):
        # The names are those of the parameters in checkpoints.
        options = self.options
        self.token = TokenEmbedding(options, self.size)
        self.stack = Hidden(options)
        width = 0 if options.tie_embeddings else options.state_width
        self.output = VocabHead(options, self.size, self.transform, width=width)
        self.pooler, self.named_heads = make_heads(options, self.heads)

    def outputs(
        self,
        group: Mapping,
        scored: jax.Array | None = None,
        *,
        mems: Mapping | None = None,
        cache: Words | None = None,
    ) -> Outputs:
        """The outputs, whose states are 0 at padding.

        Mems are the vectors of the last words of the previous row, `Words`; the first
        segment continues them.
        """
        before = cache
        if mems is not None:
            before = Words(**lax.stop_gradient(dict(mems)))
            last_B1 = before.segment[:, -1:]
            same_BM = (before.segment == last_B1) & (last_B1 > 0)
            first_B1 = group["segment"][:, :1]
            before = before._replace(segment=jnp.where(same_BM, first_B1, 0))
        if before is None:
            before = self.empty_cache(len(group["segment"]), 0)
        x = self.token(group["token"]).astype(self.options.dtype)
        x = dropout(self, x, "embedding")
        x, after = _windows(x, group["segment"], before, self.options.context)
        x = self.stack(x)
        x = jnp.where((group["segment"] > 0)[..., None], x, 0)
        if scored is not None:
            x = gather_positions(x, scored)
        return Outputs(x, after._asdict(), after)

    def features(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """The inputs of fine-tuning heads, which are the states."""
        return self.states(group, scored)

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head at states [..., D]."""
        return self.output(states, self.token.table_VE)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., D]."""
        return self.named_heads[name](states)

    def empty_mems(self, rows: int, length: int) -> dict[str, jax.Array]:
        """No words, whatever `length` is."""
        return self.empty_cache(rows, length)._asdict()

    def empty_cache(self, rows: int, slots: int) -> Words:
        """No words; it needs no slots."""
        options, count = self.options, self.options.context - 1
        return Words(
            vector=jnp.zeros((rows, count, options.table_width), options.dtype),
            segment=jnp.zeros((rows, count), jnp.int32),
        )


class Hidden(Module):
    """The hidden layers; `direct` appends their input to their output."""

    options: Network

    @nn.compact
    def __call__(self, x_BLX: jax.Array) -> jax.Array:
        """[B, L, D] from the concatenated vectors [B, L, C E]."""
        options, hidden, axes = self.options, x_BLX, ("embed", "feedforward")
        for layer in range(options.layers):
            dense = Dense(options, options.width, axes, name=f"block_{layer}")
            hidden = jnp.tanh(dense(hidden))
        hidden = dropout(self, hidden, "output")
        return jnp.concatenate([hidden, x_BLX], -1) if options.direct else hidden


def _windows(
    x_BLE: jax.Array, segment_BL: jax.Array, before: Words, context: int
) -> tuple[jax.Array, Words]:
    """The vectors [B, L, C E] of the words up to each position, latest first.

    Also returns the last words. Padding is not a word, wherever it is.
    """
    x_BNE = jnp.concatenate([before.vector, x_BLE], 1)
    segment_BN = jnp.concatenate([before.segment, segment_BL], 1)
    order_BN = jnp.argsort(segment_BN == 0, axis=1, stable=True)  # words come first
    word_BNE, of_word_BN = (gather_positions(a, order_BN) for a in (x_BNE, segment_BN))
    number_BN = jnp.cumsum(segment_BN > 0, axis=1) - 1
    number_BL = number_BN[:, before.segment.shape[1] :]

    def find(number, segment):
        """The vectors of words by number, 0 for words of another segment."""
        found = gather_positions(of_word_BN, jnp.maximum(number, 0))
        is_same = (number >= 0) & (found == segment) & (segment > 0)
        vector = gather_positions(word_BNE, jnp.maximum(number, 0))
        return jnp.where(is_same[..., None], vector, 0), jnp.where(is_same, found, 0)

    windows = [find(number_BL - n, segment_BL)[0] for n in range(context)]
    last_B1 = number_BN[:, -1:]
    number_BM = last_B1 + jnp.arange(2 - context, 1)[None]
    segment_B1 = gather_positions(of_word_BN, jnp.maximum(last_B1, 0))
    after = find(number_BM, jnp.broadcast_to(segment_B1, number_BM.shape))
    return jnp.concatenate(windows, -1), Words(*after)
