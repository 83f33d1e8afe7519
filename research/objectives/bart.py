"""Denoising of whole texts with any of five noises (BART, Lewis et al. 2020)."""

# B batch, R raw tokens, L length of both sides, W tokens without bos and eos

from dataclasses import dataclass
from typing import Any

import numpy as np

from research import models
from research.batch import ArraySpec, Example, TextSpec, VocabInfo
from research.objectives.corruption import bart_noise
from research.objectives.inputs import input_format, seq2seq
from research.objectives.losses.cross_entropy import Term

NOISES = ("permute", "mask", "delete", "infill", "insert", "rotate")
"""In the order in which a text goes through them (fairseq's)."""

UNITS = ("word", "token")
TEXTS = ("stream", "document", "sentences", "passage")


@dataclass(frozen=True)
class Objective:
    """TextSpec bos, a text after its noises, eos; writes bos, the clean text, eos.

    Each noise has a rate, 0 is none. The decoder starts with eos (fairseq). Spans of
    infilling that have no length add a mask without hiding anything; where a row has
    no room for one it is left out.
    """

    infill: float = 0.3  # share of words in spans that are one mask each
    permute: float = 1.0  # share of sentences that change places
    mask: float = 0.0  # share of words whose tokens become masks
    delete: float = 0.0  # share of words that are left out
    insert: float = 0.0  # masks that are added, for each token
    rotate: float = 0.0  # share of texts that begin at another place
    poisson: float = 3.0  # mean length of spans, in words, before they are trimmed
    random: float = 0.0  # share of masks that are an ordinary token in place of it
    unit: str = "word"  # word | token: what is hidden, and counted, as a whole
    text: str = "stream"  # stream | document | sentences | passage

    family = "DAE"
    pattern = "full"
    supports_accumulation = True

    def __post_init__(self):
        for name in (*NOISES, "random"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(
                    f"{name} is between 0 and 1, not {getattr(self, name)}"
                )
        if not any(getattr(self, name) for name in NOISES):
            raise ValueError(f"no noise: one of {', '.join(NOISES)} is above 0")
        if self.poisson < 0.1:
            raise ValueError(f"poisson is at least 0.1 words, not {self.poisson}")
        for name, legal in (("unit", UNITS), ("text", TEXTS)):
            if getattr(self, name) not in legal:
                raise ValueError(
                    f"{name} is one of {', '.join(legal)}, not {getattr(self, name)!r}"
                )

    def text_spec(self, length: int) -> TextSpec:
        """What leaves room for bos, eos and all masks that are inserted."""
        num_raw = np.arange(1, length - 1)
        room = num_raw + bart_noise.share(self.insert, num_raw) <= length - 2
        return TextSpec(self.text, int(num_raw[room][-1]))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return seq2seq.specs(length, self.text_spec(length).length + 2)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Sends each text through its noises."""
        raw = self.text_spec(length).length
        clean = input_format.enclose(example, vocab, raw + 2)
        width, num_raw = length - 2, np.minimum(example.length, raw)
        room = ((0, 0), (0, max(width - example.token.shape[1], 0)))
        here = np.arange(width) < num_raw[:, None]
        token = np.pad(example.token, room)[:, :width]
        flags = np.pad(example.flags, room)[:, :width]
        text = bart_noise.Draft(
            np.where(here, token, vocab.pad_id), flags * here, num_raw
        )
        text = self._noisy(text, key, vocab)
        noisy = seq2seq.pack(
            text.token, text.here, num_raw > 0, vocab, length, vocab.bos_id
        )
        return seq2seq.batch(noisy, clean, vocab, vocab.eos_id)

    def _noisy(self, text, key, vocab) -> bart_noise.Draft:
        """The text after all noises."""
        how = dict(vocab=vocab, unit=self.unit)
        if self.permute:
            text = bart_noise.permute_sentences(text, key, self.permute)
        if self.mask:
            text = bart_noise.mask(text, key, rate=self.mask, random=self.random, **how)
        if self.delete:
            text = bart_noise.delete(text, key, rate=self.delete, **how)
        if self.infill:
            spans = dict(mean=self.poisson, random=self.random)
            text = bart_noise.infill(text, key, rate=self.infill, **spans, **how)
        if self.insert:
            count = bart_noise.share(self.insert, text.length)
            text = bart_noise.insert(
                text, key, vocab, count, role="insert", random=self.random
            )
        return bart_noise.rotate(text, key, self.rotate) if self.rotate else text

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        return models.EncoderDecoder(options, size=vocab.size)

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: bart, and accuracy (not differentiated)."""
        return seq2seq.recovered("bart", net, batch), ()
