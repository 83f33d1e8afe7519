"""Token embeddings from the characters of words (ELMo, Peters et al. 2018).

A word is its first UTF-8 bytes between two marks, padded. Filters of 1, 2, 3, ... bytes
are max-pooled over positions, then relu; highway layers (Srivastava et al. 2015) and a
projection follow (allenai/bilm-tf at 7cffee2, bilm/model.py and data.py).
"""

# B batch, L length, V entries, N distinct tokens of a batch, C bytes of a word, A width
# of a byte's vector, W width of a filter, F all filters, E width of the embeddings

import dataclasses
import functools
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from research.networks.shared.dense import STATE_AXES, Module, constant, uniform
from research.networks.shared.embeddings import padded_rows
from research.networks.shared.options import Options
from research.networks.shared.products import dense_matmul

BEGIN_WORD, END_WORD, SPECIAL, PAD = 258, 259, 256, 260
"""Numbers of marks; numbers below 256 are bytes. An entry that is not a word, such as
the end of a text, is SPECIAL and its number among these entries."""
NUM_CHARACTERS = 261
CHUNK = 128
"""Distinct tokens that are computed at a time; chunks without any are skipped."""


@dataclasses.dataclass(frozen=True, eq=False)
class Characters:
    """How the entries of a vocabulary are spelled; a byte takes a byte."""

    inner: np.ndarray  # [V, C - 2] uint8, the bytes between the marks
    count: np.ndarray  # [V] int16 of them; -1: not a word, inner is its number


@functools.lru_cache(4)
def spell(spelling: Sequence[str], length: int) -> Characters:
    """The characters of entries.

    Args:
      spelling: of each entry; "": not a word.
      length: C, at least 4: the first C - 2 bytes of a word are read.
    """
    inner = np.zeros((len(spelling), length - 2), np.uint8)
    count = np.full(len(spelling), -1, np.int16)
    for row, word in enumerate(spelling):
        found = word.encode()[: length - 2]
        inner[row, : len(found)] = np.frombuffer(found, np.uint8)
        count[row] = len(found) or -1
    special = count < 0
    inner[special, 0] = np.arange(special.sum()) % 256
    return Characters(inner, count)


def characters_of(inner: jax.Array, count: jax.Array) -> jax.Array:
    """[N, C] int32: the numbers of characters of entries, see `Characters`."""
    num, width = inner.shape
    number = inner.astype(jnp.int32)
    shifted = jnp.concatenate([jnp.full((num, 1), SPECIAL), number[:, :1]], 1)
    shifted = jnp.pad(shifted, ((0, 0), (0, width)))[:, :width]
    special = (count < 0)[:, None]
    number = jnp.where(special, shifted, number)
    size = jnp.where(special, 2, count.astype(jnp.int32)[:, None])
    position = jnp.arange(width + 1)[None]
    after = jnp.pad(number, ((0, 0), (0, 1)))
    after = jnp.where(position > size, PAD, after)
    after = jnp.where(position == size, END_WORD, after)
    return jnp.concatenate([jnp.full((num, 1), BEGIN_WORD), after], 1)


class CharacterEmbedding(Module):
    """The vector [E] of each token, a function of only its characters.

    It is computed once per distinct token of a batch.

    Attributes:
      characters: of the vocabulary's entries.
      width: A.
      filters: numbers of filters of 1, 2, 3, ... bytes; 0: none.
      highways: number of highway layers.
    """

    options: Options
    characters: Characters
    width: int
    filters: tuple[int, ...]
    highways: int

    def setup(self):
        options, read = self.options, sum(self.filters)
        params = {
            "character": self.param(
                "character", uniform(1.0, None, None), (NUM_CHARACTERS, self.width)
            )
        }
        for size, count in enumerate(self.filters, 1):
            if not count:
                continue
            shape = (size * self.width, count)
            draw = uniform(0.05, None, None)
            params[f"filter_{size}"] = self.param(f"filter_{size}", draw, shape)
            zero = constant(0.0, None)
            params[f"bias_{size}"] = self.param(f"bias_{size}", zero, (count,))
        for layer in range(self.highways):
            draw = normal_of(read)
            for name, bias in (("carry", -2.0), ("transform", 0.0)):
                name = f"{name}_{layer}"
                params[name] = self.param(name, draw, (read, read))
                init = constant(bias, "feedforward")
                params[f"{name}_bias"] = self.param(f"{name}_bias", init, (read,))
        draw, width = normal_of(read), options.table_width
        params["project"] = self.param("project", draw, (read, width))
        zero = constant(0.0, "embed")
        params["project_bias"] = self.param("project_bias", zero, (width,))
        self.parts = params
        # The shape of a table of all entries, for a readout with its own table.
        shape = (padded_rows(len(self.characters.count)), width)
        self.table_VE = jax.ShapeDtypeStruct(shape, jnp.float32)

    def __call__(self, token_BL: jax.Array) -> jax.Array:
        """[B, L, E]."""
        options, entries = self.options, self.characters
        size = min(len(entries.count), token_BL.size)
        size = -(-size // CHUNK) * CHUNK
        distinct_N, index = jnp.unique(
            token_BL.ravel(), size=size, fill_value=-1, return_inverse=True
        )
        # A barrier, since XLA would compute with constants of V rows as it compiles.
        spelled = lax.optimization_barrier((entries.inner, entries.count))
        spelled_NC = characters_of(
            *(jnp.take(array, distinct_N, axis=0, mode="clip") for array in spelled)
        )
        compute = jax.checkpoint(partial(_embed, options, self.highways))
        width = options.table_width

        def chunk(inputs):
            spelled_nC, first = inputs
            empty = jnp.zeros((CHUNK, width), options.dtype)
            return lax.cond(
                first >= 0,
                lambda spelled: compute(self.parts, spelled),
                lambda _: empty,
                spelled_nC,
            )

        chunks = spelled_NC.reshape(-1, CHUNK, spelled_NC.shape[1])
        rows = lax.map(chunk, (chunks, distinct_N[::CHUNK])).reshape(-1, width)
        found = jnp.take(rows, index.reshape(token_BL.shape), axis=0, mode="clip")
        found = found * options.width**0.5 if options.scale_embeddings else found
        return nn.with_logical_constraint(found, STATE_AXES)


def _embed(options: Options, highways: int, params: dict, spelled_NC: jax.Array):
    """[N, E]: embeddings of spelled tokens."""
    dtype, product = options.dtype, options.operand_dtype
    x_NCA = jnp.take(params["character"], spelled_NC, axis=0).astype(dtype)
    count, largest = x_NCA.shape[1], []
    names = (name.partition("filter_")[2] for name in params)
    for size in sorted(int(name) for name in names if name):
        last = count - size + 1
        windows = [x_NCA[:, begin : begin + last] for begin in range(size)]
        value = dense_matmul(
            jnp.concatenate(windows, -1), params[f"filter_{size}"], product
        )
        best_NF = jnp.max(value, axis=1)
        largest.append(
            jax.nn.relu(best_NF + params[f"bias_{size}"].astype(dtype)[None])
        )
    x_NF = jnp.concatenate(largest, axis=-1)

    def dense(x_NF, name):
        bias = params[f"{name}_bias"].astype(dtype)
        return dense_matmul(x_NF, params[name], product) + bias[None]

    for layer in range(highways):
        gate = jax.nn.sigmoid(dense(x_NF, f"carry_{layer}"))
        new_NF = jax.nn.relu(dense(x_NF, f"transform_{layer}"))
        x_NF = gate * new_NF + (1 - gate) * x_NF
    return dense(x_NF, "project")


def normal_of(read: int):
    """N(0, 1 / sqrt(read)) of a kernel."""
    draw = nn.initializers.normal(read**-0.5)
    return nn.with_logical_partitioning(draw, (None, "feedforward"))
