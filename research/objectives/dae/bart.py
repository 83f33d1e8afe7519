"""Denoising of whole texts with any of six noises (BART, Lewis et al. 2020)."""

# B batch, R raw tokens, L length of encoder and decoder, W tokens without bos and eos

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import ArraySpec, Batch, Example, VocabInfo
from research.contract.fields import choice, fraction, number
from research.data.rows import TextSpec, single_texts
from research.objectives.dae import bart_noise
from research.objectives.layout import input_format, seq2seq
from research.objectives.layout.prompt import Prompt
from research.objectives.losses.cross_entropy import Term
from research.objectives.noise import mask_units, scoring

NOISE_RATES = (
    "permute_rate",
    "mask_rate",
    "delete_rate",
    "infill_rate",
    "insert_rate",
    "rotate_rate",
)
"""The noises' rates, in the order in which noises are applied to a text (fairseq's)."""


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads bos, a noised text, eos; writes bos, the original text, eos.

    Each noise has a rate, 0 for none. The decoder starts with eos (fairseq). Infilled
    spans of length 0 insert a mask without hiding anything, if the row has room for it.
    """

    infill_rate: float = fraction(0.3)  # fraction of words in spans, one mask per span
    permute_rate: float = fraction(1.0)  # fraction of sentences that are permuted
    mask_rate: float = fraction(0.0)  # fraction of words whose tokens become masks
    delete_rate: float = fraction(0.0)  # fraction of words that are deleted
    insert_rate: float = fraction(0.0)  # masks that are inserted, per token
    rotate_rate: float = fraction(0.0)  # fraction of texts that are rotated
    poisson_lambda: float = number(3.0, least=0.1)  # mean length of spans in words,
    # before they are trimmed
    random_fraction: float = fraction(0.0)  # fraction of masks that become an ordinary
    # token instead
    unit: str = choice(
        "word", mask_units.SINGLE_UNITS
    )  # what is hidden and counted whole
    text_unit: str = choice("stream", single_texts())  # of text that is read
    label_smoothing: float = number(0.0, least=0, below=1)  # fraction of the target's
    # probability that is spread over the vocabulary

    pattern = "full"
    token_terms = ("bart",)
    score_methods: ClassVar = scoring.INFILL_METHODS
    shown_answers: ClassVar = {"bart": "the target is the text, hidden or not"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not any(getattr(self, name) for name in NOISE_RATES):
            raise ValueError(f"no noise: set one of {', '.join(NOISE_RATES)} above 0")

    @property
    def min_length(self) -> int:
        """bos, a token, a mask inserted next to it, eos."""
        return 3 + (self.insert_rate > 0)

    def text_spec(self, length: int) -> TextSpec:
        """The longest text that leaves room for bos, eos and all inserted masks."""
        num_raw = np.arange(1, length - 1)
        added = bart_noise.ceil_fraction(self.insert_rate, num_raw)
        return TextSpec(self.text_unit, int(num_raw[num_raw + added <= length - 2][-1]))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return seq2seq.batch_spec(length, self.text_spec(length).length + 2)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Applies all noises to each text."""
        raw = self.text_spec(length).length
        clean = input_format.add_special_tokens(example, vocab, raw + 2)
        width, num_raw = length - 2, np.minimum(example.length, raw)
        missing = ((0, 0), (0, max(width - example.token.shape[1], 0)))
        valid = np.arange(width) < num_raw[:, None]
        token = np.pad(example.token, missing)[:, :width]
        flags = np.pad(example.flags, missing)[:, :width]
        text = bart_noise.NoisyText(
            np.where(valid, token, vocab.pad_id), flags * valid, num_raw
        )
        text = self._apply_noises(text, key, vocab)
        noisy = seq2seq.pack(
            text.token, text.valid, num_raw > 0, vocab, length, vocab.bos_id
        )
        return seq2seq.make_batch(noisy, clean, vocab, vocab.eos_id)

    def _apply_noises(
        self, text: bart_noise.NoisyText, key: np.ndarray, vocab: VocabInfo
    ) -> bart_noise.NoisyText:
        random_fraction = self.random_fraction
        if self.permute_rate:
            text = bart_noise.permute_sentences(text, key, self.permute_rate)
        if self.mask_rate:
            text = bart_noise.mask_words(
                text,
                key,
                vocab,
                self.mask_rate,
                unit=self.unit,
                random_fraction=random_fraction,
            )
        if self.delete_rate:
            text = bart_noise.delete_words(
                text, key, vocab, self.delete_rate, unit=self.unit
            )
        if self.infill_rate:
            text = bart_noise.infill_spans(
                text,
                key,
                vocab,
                self.infill_rate,
                unit=self.unit,
                poisson_lambda=self.poisson_lambda,
                random_fraction=random_fraction,
            )
        if self.insert_rate:
            count = bart_noise.ceil_fraction(self.insert_rate, text.length)
            text = bart_noise.insert_masks(
                text, key, vocab, count, role="insert", random_fraction=random_fraction
            )
        if self.rotate_rate:
            text = bart_noise.rotate_text(text, key, self.rotate_rate)
        return text

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """One row per word or token, which is hidden from the encoder.

        Instead the encoder reads what the noise puts there: one mask for a word
        (infilling), one for each token, or nothing (deletion). The decoder writes the
        whole text; the hidden tokens are scored, given the tokens before them.

        Raises:
          UserError: no noise hides tokens.
        """
        masks = self.infill_rate or self.mask_rate
        if not masks and not self.delete_rate:
            scoring.refuse("objective bart without infilled, masked or deleted words")
        hidden = scoring.HIDE[method](example, scored)
        rows = example.rows(hidden.text)
        token, size = rows.token, rows.length
        valid = np.arange(token.shape[1]) < size[:, None]
        first = np.arange(token.shape[1]) == hidden.first[:, None]
        read = np.where(hidden.mask, vocab.mask_id, token)
        kept = valid & ~hidden.mask
        if masks:
            kept |= first if self.infill_rate else hidden.mask
        noisy = seq2seq.pack(read, kept, size > 0, vocab, length, vocab.bos_id)
        clean = input_format.add_special_tokens(rows, vocab, length)
        arrays = seq2seq.make_batch(noisy, clean, vocab, vocab.eos_id)
        weight = np.pad(hidden.mask, [(0, 0), (1, 0)])[:, :length]
        arrays["weight"] = weight.astype(np.float32)
        return scoring.ScoreRows(hidden.text, arrays)

    def for_evaluation(self) -> "Objective":
        """The objective whose loss is only -log p."""
        return self.with_fields(label_smoothing=0.0)

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """The encoder reads texts between bos and eos; the decoder starts with bos."""
        rows = [[vocab.bos_id, *text, vocab.eos_id] for text in texts]
        return seq2seq.prompt(rows, [vocab.eos_id, vocab.bos_id], vocab)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return networks.Needs(pattern=self.pattern, stacks="encoder_decoder")

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: bart, and accuracy (not differentiated)."""
        smoothing = self.label_smoothing
        return seq2seq.loss_terms("bart", net, batch, label_smoothing=smoothing), ()
