"""Vectors of words from their character n-grams (fastText, Bojanowski et al. 2017).

Rules are those of facebookresearch/fastText at 1142dc4, src/dictionary.cc: a word w is
spelled <w>; its n-grams are numbered by a hash and share a vector if their numbers are
equal. Numbers that no n-gram of the vocabulary has have no row here, since fastText
never trains theirs.
"""

# V words, U numbers of n-grams that are in use, P n-grams of all words, E width

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jax import lax

from research.networks.shared.embeddings import VOCAB_MULTIPLE, TokenEmbedding


class Ngrams(NamedTuple):
    """The n-grams that words have."""

    least: int  # characters
    most: int
    buckets: int  # number of values of the hash

    def of(self, word: str) -> list[int]:
        """The numbers of a word's n-grams, which may repeat.

        These are all of `least` to `most` characters of <word>, except single < and >.
        The empty word has none.
        """
        text, end = f"<{word}>", len(word) + 2
        return [
            ngram_hash(text[begin : begin + size]) % self.buckets
            for begin in range(end if word else 0)
            for size in range(self.least, min(self.most, end - begin) + 1)
            if size > 1 or 0 < begin < end - 1
        ]


@functools.lru_cache(2**20)
def ngram_hash(text: str) -> int:
    """32-bit FNV-1a over UTF-8 with signed bytes, as in fastText."""
    number = 2166136261
    for byte in text.encode():
        signed = byte - 256 if byte > 127 else byte
        number = ((number ^ (signed & 0xFFFFFFFF)) * 16777619) & 0xFFFFFFFF
    return number


@dataclasses.dataclass(frozen=True, eq=False)
class WordNgrams:
    """The n-grams of a vocabulary's words, word by word."""

    ngram: np.ndarray  # [P] int32: index of its number in `numbers`
    word: np.ndarray  # [P] int32, ascending
    numbers: np.ndarray  # [U] int64, ascending
    size: int  # V

    @functools.cached_property
    def count(self) -> np.ndarray:
        """[V] int64: pieces of each word: itself and its n-grams."""
        return 1 + np.bincount(self.word, minlength=self.size)

    def known(self, numbers: list[int]) -> np.ndarray:
        """The indices of n-grams' numbers, without numbers that no word has."""
        at = np.searchsorted(self.numbers, numbers)
        found = at < len(self.numbers)
        found[found] = self.numbers[at[found]] == np.array(numbers)[found]
        return at[found]


@functools.lru_cache(4)
def find_ngrams(spelling: Sequence[str], ngrams: Ngrams) -> WordNgrams:
    """The n-grams of a vocabulary's words.

    Args:
      spelling: of each entry; "": it has no n-grams.
    """
    found = [ngrams.of(word) for word in spelling]
    count = [len(each) for each in found]
    flat = np.array([number for each in found for number in each], np.int64)
    numbers, place = np.unique(flat, return_inverse=True)
    word = np.repeat(np.arange(len(spelling), dtype=np.int32), count)
    return WordNgrams(place.astype(np.int32), word, numbers, len(spelling))


class SubwordEmbedding(TokenEmbedding):
    """A `TokenEmbedding` that adds vectors of n-grams to a word's own.

    The sum is divided by the number of vectors.

    Attributes:
      ngrams: of each entry of the vocabulary.
      gradient: the gradient of each of the n pieces; sum: that of their mean, undivided
        (the released code for word vectors); mean: divided by n, the true derivative.
    """

    ngrams: WordNgrams | None = None
    gradient: str = "sum"

    def setup(self):
        super().setup()
        ngrams, own_VE = self.ngrams, self.table
        num_rows = -(-len(ngrams.numbers) // VOCAB_MULTIPLE) * VOCAB_MULTIPLE
        shape = (num_rows, self.options.table_width)
        table_UE = self.param("ngrams", self.table_init, shape)
        table_UE = nn.with_logical_constraint(table_UE, ("vocab", None))
        each_PE = jnp.take(table_UE, ngrams.ngram, axis=0, mode="clip")
        total = own_VE + jax.ops.segment_sum(
            each_PE, ngrams.word, len(own_VE), indices_are_sorted=True
        )
        count = np.ones(len(own_VE), np.float32)
        count[: ngrams.size] = ngrams.count
        mean = total / count[:, None]
        if self.gradient == "sum":
            mean = total + lax.stop_gradient(mean - total)
        self.table = nn.with_logical_constraint(mean, ("vocab", None))


class WordRows:
    """Vectors of words, in the vocabulary or not, from trained tables."""

    def __init__(self, tables: Mapping, spelling: Sequence[str], ngrams: Ngrams):
        """Reads the tables to the host.

        Args:
          tables: the parameters of a `SubwordEmbedding`.
        """
        self._ngrams, self._found = ngrams, find_ngrams(spelling, ngrams)
        self._own = np.asarray(tables["embedding"])[: len(spelling)]
        self._table = np.asarray(tables["ngrams"])

    @property
    def vectors(self) -> np.ndarray:
        """[V, E]: of the vocabulary."""
        total = self._own.copy()
        np.add.at(total, self._found.word, self._table[self._found.ngram])
        return total / self._found.count[:, None].astype(np.float32)

    def __call__(self, word: str) -> np.ndarray:
        """[E]: the vector of a word that the vocabulary lacks.

        It is the mean of those of its n-grams that occur in the vocabulary; 0 if none.
        """
        known = self._found.known(self._ngrams.of(word))
        return self._table[known].sum(axis=0) / np.float32(max(1, len(known)))
