"""The convolutional network of Kim 2014: filters over the vectors of a text's words.

A filter of width w has a value for each w consecutive words: relu(b + sum_k K_k
x_(i+k)), with the vector 0 for words before and after the text, so that a text of one
word also has windows (section 2; yoonkim/CNN_sentence at 23e0e1f). A state has, for
each filter, the largest value among the windows that contain its word, so the maximum
of a text's states is its maximum over time (`objective.pool=max`).
"""

# B batch, L length, P scored positions, E width of the vectors, W width of a filter,
# F filters of one width, D width: all filters

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax

from research import networks
from research.contract.batch import FEATURE
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
from research.networks.shared.embeddings import embed_by_table
from research.networks.shared.heads import HeadSpec, make_heads
from research.networks.shared.products import dense_matmul

MAX_FILTER = 64
"""The widest filter, in words."""
UNROLLED_FILTER = 5
"""The widest filter that the program unrolls, with a copy for each column."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Network(networks.Network):
    """One layer of filters of several widths, `width` filters in all.

    The vectors of an objective (`objective.vectors`) are added to those of the token
    table, which is then initially 0: the table is what training adds to them. With
    optimizer.frozen=token the network reads only the given vectors (the paper's
    CNN-static), otherwise it tunes them (CNN-non-static).
    """

    filter_widths: list = dataclasses.field(default_factory=lambda: [3, 4, 5])  # words
    filter_range: float = number(0.01, above=0)  # filters are initially uniform in it
    table_range: float = number(0.0, least=0)  # the same for the token table, if it is
    # not added to given vectors; 0: as model.init says
    channels: str = choice("one", ("one", "two"))  # two: the same filters also read the
    # given vectors unchanged (CNN-multichannel)

    small_keys: ClassVar = {"filter_widths": [9, 12]}  # as wide as the texts
    abilities: ClassVar = (networks.Ability.FULL, networks.Ability.INPUT_FEATURES)

    def __post_init__(self):
        super().__post_init__()
        widths = tuple(self.filter_widths)
        object.__setattr__(self, "filter_widths", widths)
        if not widths or any(
            type(width) is not int or not 1 <= width <= MAX_FILTER for width in widths
        ):
            raise UserError(
                f"model.filter_widths is {[*widths]!r}; it has whole numbers from 1 to "
                f"{MAX_FILTER}, as in [3, 4, 5]"
            )
        if len({*widths}) < len(widths) or self.width % len(widths):
            raise UserError(
                f"model.filter_widths is {[*widths]}: all differ, and their number "
                f"divides model.width, {self.width}, the number of filters"
            )

    def module(self, needs: networks.Needs, size: int) -> nn.Module:
        given = needs.input_features
        if given not in (0, self.table_width):
            raise UserError(
                f"model.network word_cnn adds vectors beside words to their own: these "
                f"have {given} numbers, model.embedding_width is {self.table_width}"
            )
        if self.channels == "two" and not given:
            raise UserError(
                "model.channels=two reads given vectors a second time, and there are "
                "none; set objective.vectors, or model.channels=one"
            )
        heads = tuple(needs.heads.items())
        return WordCNN(self, size, needs.transform, heads, given > 0)


class WordCNN(nn.Module):
    """A `networks.BoundNetwork` when bound.

    Attributes:
      size: entries of the vocabulary.
      transform: the readout has BERT's layers before the table.
      heads: the layers of each named head.
      has_vectors: positions have given vectors in addition to words.
    """

    options: Network
    size: int
    transform: bool = False
    heads: tuple[tuple[str, HeadSpec], ...] = ()
    has_vectors: bool = False

    def setup(self):
        # The names are those of the parameters in checkpoints.
        options = self.options
        self.token = embed_by_table(options, self.size, has_vectors=self.has_vectors)
        self.stack = Filters(options)
        self.output = VocabHead(options, self.size, self.transform)
        self.pooler, self.named_heads = make_heads(options, self.heads)

    def states(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """States [B, L, D], 0 at padding, or [B, P, D] at `scored`."""
        x = self.token(group["token"]).astype(self.options.dtype)
        if FEATURE in group:
            channels = 2 if self.options.channels == "two" else 1
            x = x + channels * group[FEATURE].astype(x.dtype)
        x = self.stack(dropout(self, x, "embedding"), group["segment"])
        x = dropout(self, x, "output")
        return x if scored is None else gather_positions(x, scored)

    def features(self, group: Mapping, scored: jax.Array | None = None) -> jax.Array:
        """The inputs of fine-tuning heads, which are the states."""
        return self.states(group, scored)

    def readout(self, states: jax.Array) -> Readout:
        """The vocabulary head at states [..., D]."""
        return self.output(states, self.token.table_VE)

    def head(self, name: str, states: jax.Array) -> jax.Array:
        """Float32 [..., n]: the head `name` at states [..., D]."""
        return self.named_heads[name](states)


class Filters(Module):
    """All filters."""

    options: Network

    @nn.compact
    def __call__(self, x_BLE: jax.Array, segment_BL: jax.Array) -> jax.Array:
        """States [B, L, D] from the vectors of words."""
        options, found = self.options, []
        count = options.width // len(options.filter_widths)
        draw = uniform(options.filter_range, None, "embed", "feedforward")
        for width in options.filter_widths:
            shape = (width, x_BLE.shape[-1], count)
            kernel_WEF = self.param(f"filter_{width}", draw, shape)
            init = constant(0.0, "feedforward")
            bias_F = self.param(f"bias_{width}", init, (count,))
            best_BLF = _best_windows(options, kernel_WEF, x_BLE, segment_BL)
            found.append(jax.nn.relu(best_BLF + bias_F.astype(x_BLE.dtype)[None, None]))
        states = jnp.concatenate(found, axis=-1)
        return jnp.where((segment_BL > 0)[..., None], states, 0)


def _best_windows(
    options: Network, kernel_WEF: jax.Array, x_BLE: jax.Array, segment_BL: jax.Array
) -> jax.Array:
    """[B, L, F]: the largest value among the windows that contain a position.

    Each word is multiplied once by each of the filter's W columns; a window is a sum of
    such products, only over words of its position's segment.
    """
    width, read, count = kernel_WEF.shape
    kernel = jnp.moveaxis(kernel_WEF, 0, 1).reshape(read, width * count)
    product = dense_matmul(x_BLE, kernel, options.operand_dtype)
    product_BLWF = product.reshape(*x_BLE.shape[:2], width, count)
    margin = width - 1
    sides = ((0, 0), (margin, margin))
    segment = jnp.pad(segment_BL, sides)
    padded = jnp.pad(product_BLWF, (*sides, (0, 0), (0, 0)))
    length = x_BLE.shape[1]

    def window(own: jax.Array) -> jax.Array:
        """Sums of the windows in which the position is at column `own`."""
        total = jnp.zeros_like(product_BLWF[:, :, 0])
        for column in range(width):
            begin = margin + column - own
            is_same = lax.dynamic_slice_in_dim(segment, begin, length, 1) == segment_BL
            found = lax.dynamic_slice_in_dim(padded[:, :, column], begin, length, 1)
            total += jnp.where(is_same[..., None], found, 0)
        return total

    def widen(best: jax.Array, own: jax.Array) -> tuple[jax.Array, None]:
        return jnp.maximum(best, window(own)), None

    columns = jnp.arange(width)
    unroll = width if width <= UNROLLED_FILTER else 1
    return lax.scan(widen, window(columns[0]), columns[1:], unroll=unroll)[0]
