"""Adaptive input embeddings and softmax: rare words in clusters, with narrower tables.

Words are sorted by frequency: a word's id is its rank, except specials. Cluster 0 has
the ids below the first cutoff, cluster i those from cutoff i on. Its table has width
E_i = width // model.cutoff_divisor ** i; if that divisor is above 1, a projection
[E_i, width] follows the lookup. The softmax uses the same tables and, except in cluster
0, the same projections (Grave et al. 2017; Baevski and Auli 2019, section 3; code of
Dai et al. 2019: kimiyoung/transformer-xl, mem_transformer.py, AdaptiveEmbedding, and
proj_adaptive_softmax.py).
"""

# B batch, L length, D width, E width of a table, V its rows (with padding)

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from flax import linen as nn

from research.contract import fields
from research.contract.errors import UserError
from research.networks import readouts
from research.networks.readouts import Score
from research.networks.readouts.softmax import Readout
from research.networks.shared.dense import Module, constant, normal
from research.networks.shared.dense_attention import HIDDEN
from research.networks.shared.embeddings import VOCAB_MULTIPLE, lookup
from research.networks.shared.options import Options
from research.networks.shared.products import dense_matmul

PROJECTION_STD = 0.01
"""Std of the initial projections (released code, train.py, proj_init_std)."""


@dataclasses.dataclass(frozen=True)
class Output(readouts.Output):
    """Clusters of words, of which the rare ones have narrower vectors."""

    cutoffs: list = dataclasses.field(default_factory=list)  # ids at which clusters of
    # an adaptive softmax and input begin, ascending; [20000]: one cluster from there;
    # []: none. Ids must be sorted by frequency
    cutoff_divisor: int = fields.number(
        1, least=1
    )  # widths of the clusters' tables: width,
    # width / divisor, width / divisor ** 2, ...

    chosen_by: ClassVar = "cutoffs"
    example: ClassVar = {"cutoffs": [20, 35], "cutoff_divisor": 2}
    needs: ClassVar = {
        "embedding_width": (0,),
        "tie_embeddings": (True,),
        "output_head": ("table", "bias"),
        "output_rows": ("vocabulary",),
        "init": ("normal", "truncated"),
        "quantization": ("none",),
    }

    def embedding(self, options, size, init=None, name=None):
        return AdaptiveEmbedding(options, self, size, init, name=name)

    def head(self, options, size, token, transform):
        return AdaptiveHead(options, self, size, token)

    def readout(self, head, states, token):
        return head(states)

    def edges(self, size: int) -> list[int]:
        """0, the cutoffs and `size`: cluster i has the words from edge i to i + 1.

        Raises:
          UserError: the cutoffs do not ascend, or exceed the vocabulary's size.
        """
        edges = [0, *self.cutoffs, size]
        if edges != sorted(set(edges)):
            raise UserError(
                f"model.cutoffs are {list(self.cutoffs)}; they must ascend, from above "
                f"0 to below {size}, the entries of the vocabulary"
            )
        return edges


@dataclasses.dataclass(frozen=True)
class AdaptiveReadout(readouts.OtherReadout):
    """Readouts of cluster 0, which also predicts the clusters, and of the others."""

    head: Readout  # rows cutoffs[0], cutoffs[0] + 1, ... are the clusters
    tails: tuple[Readout, ...]  # row n of a tail is word cutoff + n
    cutoffs: tuple[int, ...]  # the first word of each tail

    chosen_by: ClassVar = "cutoffs"

    def logits(self) -> jax.Array:
        """log p(word) = log p(cluster) + log p(word | cluster) (Grave et al. 2017)."""
        first = self.cutoffs[0]
        head = jax.nn.log_softmax(self.head.logits(), axis=-1)
        parts = [head[..., :first]]
        for number, tail in enumerate(self.tails):
            word = jax.nn.log_softmax(tail.logits(), axis=-1)
            parts.append(head[..., first + number, None] + word)
        return jnp.concatenate(parts, axis=-1)

    def loss(
        self, score: Score, options: Any, target_BK: jax.Array, weight_BK: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """The sum of the losses, and the correct weight.

        -log p(word) = -log p(cluster) - log p(word | cluster) for the words of a
        cluster (Grave et al. 2017, section 4; kimiyoung/transformer-xl,
        proj_adaptive_softmax.py). A cluster's softmax is computed for the positions
        whose target is in it: they are sorted first, and chunks without any are
        skipped. A position is correct if both cluster and word are.
        """
        if options.smoothing or options.z_loss:
            raise UserError(
                "model.cutoffs cannot be combined with label smoothing or a z-loss"
            )
        entry_BK = target_BK  # target of the head: the word itself, or its cluster
        for number, cutoff in enumerate(self.cutoffs):
            entry_BK = jnp.where(
                target_BK >= cutoff, self.cutoffs[0] + number, entry_BK
            )
        options = options._replace(skip=False)
        total, right_BK = self.head.loss(score, options, entry_BK, weight_BK)
        correct = jnp.sum(jnp.where(target_BK < self.cutoffs[0], right_BK, 0.0))
        options = options._replace(skip=True)
        for number, tail in enumerate(self.tails):
            inside_BK = entry_BK == self.cutoffs[0] + number
            order_BK = jnp.argsort(~inside_BK, axis=1, stable=True)
            word_BK = jnp.where(inside_BK, target_BK - self.cutoffs[number], 0)
            word, weight, right = (
                jnp.take_along_axis(array, order_BK, axis=1)
                for array in (word_BK, jnp.where(inside_BK, weight_BK, 0.0), right_BK)
            )
            feature = jnp.take_along_axis(tail.feature, order_BK[..., None], axis=1)
            tail = tail._replace(feature=feature)
            loss, found = tail.loss(score, options, word, weight)
            total += loss
            correct += jnp.sum(jnp.where(right > 0, found, 0.0))
        return total, correct


class AdaptiveEmbedding(Module):
    """One vector per entry of a vocabulary, narrower for rare ones."""

    options: Options
    output: Output
    size: int
    init: Callable | None = None  # of all tables, instead of that of `model.init`

    def setup(self):
        options = self.options
        output, self.edges = self.output, self.output.edges(self.size)
        tables, projections = [], []
        for number, first in enumerate(self.edges[:-1]):
            prefix = f"tail_{number}_" if number else ""
            width = max(1, options.width // output.cutoff_divisor**number)
            # The first table also has a row for each of the other clusters.
            num_words = self.edges[number + 1] - first
            num_rows = num_words if number else num_words + len(output.cutoffs)
            num_rows = -(-num_rows // VOCAB_MULTIPLE) * VOCAB_MULTIPLE
            init = self.init or normal(options, 0.02, "vocab", "embed")
            tables.append(self.param(f"{prefix}embedding", init, (num_rows, width)))
            if output.cutoff_divisor > 1:
                init = normal(options, PROJECTION_STD, None, "embed")
                shape = (width, options.width)
                projections.append(self.param(f"{prefix}project", init, shape))
        self.tables, self.projections = tuple(tables), tuple(projections)

    def __call__(self, token_BL: jax.Array) -> jax.Array:
        """[B, L, D]."""
        options, x_BLD = self.options, 0
        for number, table in enumerate(self.tables):
            first, end = self.edges[number : number + 2]
            inside_BL = (token_BL >= first) & (token_BL < end)
            found = lookup(table, jnp.where(inside_BL, token_BL - first, 0), "vocab")
            if self.projections:
                projection = self.projections[number]
                found = dense_matmul(found, projection, options.operand_dtype)
            x_BLD += jnp.where(inside_BL[..., None], found, 0)
        return x_BLD * options.width**0.5 if options.scale_embeddings else x_BLD


class AdaptiveHead(Module):
    """The adaptive softmax over the words of an `AdaptiveEmbedding`.

    Attributes:
      size: entries of the vocabulary.
      token: the `AdaptiveEmbedding`.
    """

    options: Options
    output: Output
    size: int
    token: Any

    @nn.compact
    def __call__(self, states) -> AdaptiveReadout:
        """The readout of states [..., D]."""
        options, edges = self.options, self.output.edges(self.size)
        sizes = [end - first for first, end in pairwise(edges)]
        sizes[0] += len(self.output.cutoffs)
        readouts = []
        for number, table_VE in enumerate(self.token.tables):
            x, prefix = states, f"tail_{number}_" if number else ""
            if self.token.projections:
                projection = self.token.projections[number]
                if not number:  # all but the first are tied (train.py, tie_projs)
                    init = normal(options, PROJECTION_STD, None, "embed")
                    projection = self.param("project", init, projection.shape)
                x = dense_matmul(x, projection.T, options.operand_dtype)
            num_rows = len(table_VE)
            bias_V = jnp.zeros(num_rows)
            if options.output_head == "bias":
                init = constant(0.0, "vocab")
                bias_V = self.param(f"{prefix}bias", init, (num_rows,))
            used_V = jnp.arange(num_rows) < sizes[number]
            bias_V = jnp.where(used_V, bias_V, HIDDEN)
            x = x.astype(options.operand_dtype)
            readouts.append(Readout(x, table_VE, bias_V, sizes[number]))
        head, *tails = readouts
        return AdaptiveReadout(head, tuple(tails), tuple(self.output.cutoffs))
