"""Masked sequence to sequence (MASS, Song et al. 2019): a span that the decoder writes.

The encoder reads the text without the span; the decoder reads and writes the span
alone, at the places it has in the text.
"""

# B batch, L length, T longest span

from dataclasses import dataclass
from typing import Any

import numpy as np

from research import models
from research.batch import ArraySpec, Example, TextSpec, VocabInfo
from research.data import counter_rng
from research.objectives.corruption import spans
from research.objectives.inputs import input_format, seq2seq
from research.objectives.losses.cross_entropy import Term

STARTS = ("uniform", "edges")
FIRSTS = ("mask", "previous")
TEXTS = ("stream", "document", "sentences", "passage")

AT_EDGES = (0.2, 0.2)
"""Shares of spans that begin the text, and that end it (released code)."""


@dataclass(frozen=True)
class Objective:
    """TextSpec bos, text, eos, of which the span is masked; scores the span.

    A decoder's place reads the token before its target, and has the position that this
    token has in the encoder. What is special in a span stays, and is not scored. Each
    corpus of a mixture is a kind (the language, where the model has kinds). The decoder
    sees all of the encoder's places (the released code hides its masks).
    """

    rate: float = 0.5  # length of the span, as a share of the text
    mask: float = 0.8  # share of the span that the encoder reads as masks
    random: float = 0.1  # share that it reads as ordinary tokens; the rest stays
    start: str = "uniform"  # uniform | edges: 20 % begin the text, 20 % end it
    first: str = "mask"  # mask (paper) | previous (code): what the decoder reads first
    text: str = "stream"  # stream | document | sentences | passage

    family = "DAE"
    pattern = "full"
    supports_accumulation = True

    def __post_init__(self):
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate is above 0 and at most 1, not {self.rate}")
        if min(self.mask, self.random, 1 - self.mask - self.random) < -1e-9:
            raise ValueError("mask and random are shares, together at most 1")
        legal = {"start": STARTS, "first": FIRSTS, "text": TEXTS}
        for name, values in legal.items():
            if getattr(self, name) not in values:
                raise ValueError(
                    f"{name} is one of {', '.join(values)}, not {getattr(self, name)!r}"
                )

    def size(self, num_raw):
        """Tokens of the span in texts of `num_raw` (any shape), at least one."""
        num_raw = np.asarray(num_raw)
        size = np.maximum(np.rint(self.rate * num_raw).astype(np.int64), 1)
        return np.minimum(size, num_raw)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec(self.text, length - 2)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return seq2seq.specs(length, int(self.size(length - 2)))

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides one span from the encoder."""
        token, num_tokens = input_format.enclose(example, vocab, length)
        num_raw = np.maximum(num_tokens - 2, 0)
        size = self.size(num_raw)
        begin = 1 + self._begin(key, num_raw - size)
        place = np.arange(length)
        span = (place >= begin[:, None]) & (place < (begin + size)[:, None])
        how = dict(mask=self.mask, random=self.random)
        hidden = span & ~vocab.is_special[token]
        encoder = spans.replaced(token, hidden, key, vocab, **how)

        slot = np.arange(int(self.size(length - 2)))
        used = slot < size[:, None]
        before = np.minimum(begin[:, None] - 1 + slot, length - 2)
        read = np.take_along_axis(token, before, axis=1)
        if self.first == "mask":
            read[:, 0] = vocab.mask_id
        target = np.take_along_axis(token, before + 1, axis=1)
        decoder = input_format.causal(np.where(used, read, vocab.pad_id), size)
        decoder["position"] = np.where(used, before, 0).astype(np.int32)
        batch = input_format.full(encoder, num_tokens, "encoder_") | {
            "decoder_" + name: array for name, array in decoder.items()
        }
        for side in ("encoder_", "decoder_"):
            batch[side + "token_type"] += example.corpus[:, None]
        weight = used & ~vocab.is_special[target]
        return batch | {
            "target": np.where(used, target, vocab.pad_id),
            "weight": weight.astype(np.float32),
        }

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        return models.EncoderDecoder(options, size=vocab.size)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: mass, and accuracy (not differentiated)."""
        return seq2seq.recovered("mass", net, batch), ()

    def _begin(self, key: np.ndarray, last: np.ndarray) -> np.ndarray:
        """[B]: where the span begins, in 0..last [B]."""
        draw = counter_rng.uniform(key, "begin", 2)
        begin = (draw[:, 0] * (last + 1)).astype(np.int64)
        if self.start == "uniform":
            return begin
        front, back = AT_EDGES
        begin = np.where(draw[:, 1] < front + back, last, begin)
        return np.where(draw[:, 1] < front, 0, begin)
