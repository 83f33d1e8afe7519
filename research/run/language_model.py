"""A trained network and its vocabulary, on texts and NumPy arrays."""

# B batch, L length, D width

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import input_group
from research.data.tokenizers.vocabulary import Vocabulary
from research.errors import UserError, unknown
from research.objectives.inputs import input_format

POOLS = ("mean", "class")
"""What a vector is: the mean of the states of all tokens; that of the class token."""
LAYOUTS = {
    "both": (("bos",), ("eos",)),
    "eos": ((), ("eos",)),
    "last": ((), ("eos", "bos")),
    "none": (("bos",), ()),
}
"""The special tokens before and after a text, by the layout of its tokenizer. A causal
network reads bos first, as in its training."""
MIN_WIDTH = 16
"""Positions of a row at least."""
TYPE_OF_LAST = 2
"""XLNet's token type of the class token (`xlnet_segments`)."""


@dataclasses.dataclass(frozen=True)
class LanguageModel:
    """What `open_run` gives.

    Attributes:
      network: a Transformer or an EncoderDecoder, unbound.
      params: its parameters, on the default device.
      layout: one of `LAYOUTS`.
      max_length: tokens of a row at most, with its special tokens.
    """

    network: Any
    params: Any
    vocabulary: Vocabulary
    layout: str
    max_length: int

    @property
    def has_encoder(self) -> bool:
        """Whether the network is an encoder-decoder."""
        return isinstance(self.network, models.EncoderDecoder)

    def encode(
        self, texts: Sequence[str], pool: str = "mean", *, batch: int = 32
    ) -> np.ndarray:
        """A vector of each text, float32 [texts, D]: of the last layer, not normalised.

        A text is read with its special tokens, and cut behind `max_length` tokens. Of
        an encoder-decoder the vector is the encoder's. The class token is bos; in a
        causal network it is the last token, the only one that sees the whole text.

        Args:
          pool: one of `POOLS`; the mean is over special tokens as well.
          batch: texts that are read at once.

        Raises:
          UserError: an unknown `pool`, or the network has no class token.
        """
        if pool not in POOLS:
            raise unknown("pool", pool, POOLS)
        if pool == "class" and self.has_encoder:
            raise UserError(
                "pool is class, but an encoder-decoder has no class token; set mean"
            )
        vectors = [np.zeros((0, self.network.options.width), np.float32)]
        for token, length in self._rows(texts, batch):
            group = self._network_input(token, length)
            weight = self._pool_weight(token, length, pool)
            pooled = np.asarray(self._encode(self.params, group, weight))
            vectors.append(pooled[length > 0])
        return np.concatenate(vectors)

    @functools.cached_property
    def _encode(self) -> Any:
        """(params, inputs, weight [B, L]) -> the weighted sum of states [B, D]."""

        def states(net, group):
            return net.encode(group).states if self.has_encoder else net.states(group)

        @jax.jit
        def encode(params, group, weight_BL):
            states_BLD = models.apply(self.network, params, lambda n: states(n, group))
            return jnp.einsum("bl,bld->bd", weight_BL, states_BLD.astype(jnp.float32))

        return encode

    def _rows(
        self, texts: Sequence[str], batch: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """token [B, L] and length [B] of `batch` texts at a time; rows without text
        fill the last one. L is a power of two, so that few lengths are compiled."""
        ids = [self._with_specials(text) for text in texts]
        for start in range(0, len(ids), batch):
            chunk = ids[start : start + batch]
            longest = max(MIN_WIDTH, *map(len, chunk))
            width = min(self.max_length, 1 << (longest - 1).bit_length())
            token = np.full((batch, width), self.vocabulary.vocab.pad_id, np.int32)
            for row, own in enumerate(chunk):
                token[row, : len(own)] = own
            length = np.array([*map(len, chunk), *[0] * (batch - len(chunk))])
            token[token >= self.network.size] = 0  # padding that the table lacks
            yield token, length

    def _with_specials(self, text: str) -> np.ndarray:
        """The ids of a text and its special tokens, those that the network has."""
        vocab, size = self.vocabulary.vocab, self.network.size
        before, after = (
            [id_ for name in names if (id_ := getattr(vocab, f"{name}_id")) < size]
            for names in LAYOUTS[self.layout]
        )
        room = self.max_length - len(before) - len(after)
        token = self.vocabulary.encode(text)[0][:room]
        ids = np.concatenate([before, token, after]).astype(np.int32)
        return ids if len(ids) else np.array([vocab.unk_id], np.int32)

    def _network_input(self, token: np.ndarray, length: np.ndarray) -> dict:
        """The six arrays of rows, which attend as the network's pattern says."""
        is_causal = not self.has_encoder and self.network.pattern == "causal"
        make = input_format.causal_input if is_causal else input_format.full_input
        group = make(token, length)
        if self.layout == "last" and self.network.options.token_types > TYPE_OF_LAST:
            at = np.maximum(length - 1, 0)[:, None]
            np.put_along_axis(group["token_type"], at, TYPE_OF_LAST, axis=1)
        return input_group(group)

    def _pool_weight(
        self, token: np.ndarray, length: np.ndarray, pool: str
    ) -> np.ndarray:
        """[B, L] float32: how much each position counts in the vector."""
        position, length = np.arange(token.shape[1]), length[:, None]
        if pool == "mean":
            weight = (position < length) / np.maximum(length, 1)
        else:
            at = 0 if self.layout == "both" else np.maximum(length - 1, 0)
            weight = np.broadcast_to(position == at, token.shape)
        return weight.astype(np.float32)
