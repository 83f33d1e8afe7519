"""Masked sequence to sequence (MASS, Song et al. 2019): a span that the decoder writes.

The encoder reads the text with the span masked; the decoder reads and writes only the
span, at its positions in the text.
"""

# B batch, L length, T longest span

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import ArraySpec, Batch, Example, VocabInfo, input_group
from research.contract.errors import UserError
from research.contract.fields import check_sum, choice, fraction, number
from research.data import counter_rng
from research.data.rows import TextSpec, single_texts, units_with
from research.objectives.layout import input_format, seq2seq
from research.objectives.layout.prompt import Prompt, pad_rows
from research.objectives.losses.cross_entropy import Term
from research.objectives.noise import scoring, spans
from research.objectives.noise.masking import RANDOM_TOKENS, STAYS, TOKEN_SETS

EDGE_RATES = (0.2, 0.2)
"""Fractions of spans that begin the text, and that end it (released code)."""

ANY_END = 2**31 - 1
"""Last position of a text that ends only with eos."""


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads bos, text, eos with a masked span; scores the span.

    At each position the decoder reads the token before its target, with the position of
    that token in the encoder. Each corpus of a mixture is a token type (its language,
    where the model has token types).

    With `candidates` all, as in the released code (microsoft/MASS, MASS-unsupNMT,
    trainer.py, restricted_mask_sent), the span is among the tokens after bos, including
    eos, so that a span at the end of the text predicts eos; the length of the text
    counts bos and eos. Otherwise special tokens in a span are unchanged and not scored.
    """

    rate: float = number(0.5, above=0, most=1)  # length of the span / text length
    mask_fraction: float = fraction(0.8)  # fraction of the span read as masks
    random_fraction: float = fraction(0.1)  # fraction read as random tokens; the rest
    # is unchanged
    candidates: str = choice("ordinary", TOKEN_SETS)  # what a span hides; all: also eos
    random_tokens: str = choice("ordinary", RANDOM_TOKENS)  # what random tokens are
    # drawn from; all: the whole vocabulary (released code)
    cross_attention: str = choice("all", ("all", "unmasked"))  # encoder positions that
    # the decoder attends to; unmasked: not those with the mask token (released code)
    span_start: str = choice("uniform", ("uniform", "edges"))  # edges: 20 % begin the
    # text, 20 % end it, the others are uniform
    decoder_start: str = choice("mask", ("mask", "previous"))  # first token that the
    # decoder reads: a mask (paper) or the token before the span (released code)
    text_unit: str = choice("stream", single_texts())  # of text that is read
    shortest: int = number(1, least=1)  # minimum tokens of a text; with text_unit
    # sentence shorter ones are left out (released code: 5)
    label_smoothing: float = number(0.0, least=0, below=1)  # fraction of the target's
    # probability that is spread over the vocabulary

    pattern = "full"
    token_terms = ("mass",)
    score_methods: ClassVar = scoring.INFILL_METHODS
    shown_answers: ClassVar = {"mass": STAYS}
    min_length = 3  # bos, a token, eos
    reads_corpus = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sum(self, "mask_fraction", "random_fraction")
        units = units_with("shortest")
        if self.shortest > 1 and self.text_unit not in units:
            raise ValueError(
                f"shortest above 1 needs text_unit {' or '.join(units)}, not "
                f"{self.text_unit}"
            )

    def span_size(self, num_raw: np.ndarray | int) -> np.ndarray:
        """Tokens of the span in texts of `num_raw` tokens (any shape), at least one."""
        num_raw, all_tokens = np.asarray(num_raw), self.candidates == "all"
        size = np.rint(self.rate * (num_raw + 2 * all_tokens)).astype(np.int64)
        size = np.minimum(np.maximum(size, 1), num_raw + all_tokens)
        return np.where(num_raw > 0, size, 0)

    def text_spec(self, length: int) -> TextSpec:
        own = {"shortest": self.shortest} if self.shortest > 1 else {}
        return TextSpec(self.text_unit, length - 2, **own)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        specs = seq2seq.batch_spec(length, int(self.span_size(length - 2)))
        if self.cross_attention == "unmasked":
            specs["cross_segment"] = ArraySpec((length,))
        return specs

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides one span from the encoder."""
        token, num_tokens = input_format.add_special_tokens(example, vocab, length)
        num_raw = np.maximum(num_tokens - 2, 0)
        size = self.span_size(num_raw)
        all_tokens = self.candidates == "all"
        begin = 1 + self._draw_begin(key, num_raw + all_tokens - size)
        index = np.arange(length)
        inside = (index >= begin[:, None]) & (index < (begin + size)[:, None])
        token_read = spans.replace_tokens(
            token,
            inside & (all_tokens | ~vocab.is_special[token]),
            key,
            vocab,
            mask_fraction=self.mask_fraction,
            random_fraction=self.random_fraction,
            random_tokens=self.random_tokens,
        )
        batch = self._make_batch(
            token,
            num_tokens,
            token_read,
            begin,
            size,
            vocab,
            max_size=int(self.span_size(length - 2)),
        )
        for prefix in ("encoder_", "decoder_"):
            batch[prefix + "token_type"] += example.corpus[:, None]
        return batch

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """One row per word or token: the encoder reads masks, the decoder writes."""
        hidden = scoring.HIDE[method](example, scored)
        texts = example.rows(hidden.text)
        token, num_tokens = input_format.add_special_tokens(texts, vocab, length)
        read, (row, at) = token.copy(), np.nonzero(hidden.mask)
        read[row, 1 + at] = vocab.mask_id
        size = hidden.mask.sum(axis=1)
        arrays = self._make_batch(
            token, num_tokens, read, 1 + hidden.first, size, vocab, max_size=length - 2
        )
        return scoring.ScoreRows(hidden.text, arrays)

    def for_evaluation(self) -> "Objective":
        """The objective whose loss is only -log p."""
        return self.with_fields(label_smoothing=0.0)

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """Texts whose span of masks the decoder writes; without masks a whole text.

        A whole text begins at position 0 and ends with eos, as the released code
        translates, also with an only pretrained network at the start of
        back-translation (MASS-unsupNMT, src/trainer.py, bt_step;
        src/model/transformer.py, generate). Both stacks read token type 0, the first
        corpus.

        Raises:
          UserError: the masks of a text are not one span.
        """
        rows = [[vocab.bos_id, *text, vocab.eos_id] for text in texts]
        token, num_tokens = pad_rows(rows, vocab.pad_id)
        masked = token == vocab.mask_id
        size, begin = masked.sum(axis=1), np.maximum(masked.argmax(axis=1), 1)
        at = np.arange(token.shape[1])
        in_span = (at >= begin[:, None]) & (at < (begin + size)[:, None])
        if (masked != in_span).any():
            raise UserError(
                "objective mass writes one span: the masks of a prompt are next to "
                "each other"
            )
        one = np.ones_like(begin)
        batch = self._make_batch(
            token, num_tokens, token, begin, one, vocab, max_size=1
        )
        encoder = input_group(batch, "encoder_")
        if self.cross_attention == "unmasked":
            encoder["cross_segment"] = batch["cross_segment"]
        end = np.where(size > 0, begin + size - 1, ANY_END).astype(np.int32)
        return Prompt(input_group(batch, "decoder_"), encoder, end=end)

    def _make_batch(
        self,
        token: np.ndarray,
        num_tokens: np.ndarray,
        encoder: np.ndarray,
        begin: np.ndarray,
        size: np.ndarray,
        vocab: VocabInfo,
        *,
        max_size: int,
    ) -> dict[str, np.ndarray]:
        """The arrays of rows whose span the decoder writes.

        Args:
          token: [B, L] int32; `num_tokens` [B] of them are not padding.
          encoder: [B, L] int32, what the encoder reads instead.
          begin, size: [B], of the span.
          max_size: positions of the decoder.
        """
        all_tokens, length = self.candidates == "all", token.shape[1]
        slot = np.arange(max_size)
        used = slot < size[:, None]
        before = np.minimum(begin[:, None] - 1 + slot, length - 2)
        read = np.take_along_axis(token, before, axis=1)
        if self.decoder_start == "mask":
            read[:, 0] = vocab.mask_id
        target = np.take_along_axis(token, before + 1, axis=1)
        decoder = input_format.causal_input(np.where(used, read, vocab.pad_id), size)
        decoder["position"] = np.where(used, before, 0).astype(np.int32)
        batch = input_format.full_input(encoder, num_tokens, "encoder_") | {
            "decoder_" + name: array for name, array in decoder.items()
        }
        if self.cross_attention == "unmasked":
            visible = batch["encoder_segment"] * (encoder != vocab.mask_id)
            batch["cross_segment"] = visible.astype(np.int32)
        weight = used & (all_tokens | ~vocab.is_special[target])
        return batch | {
            "target": np.where(used, target, vocab.pad_id),
            "weight": weight.astype(np.float32),
        }

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        languages = vocab.num_corpora if vocab.num_corpora > 1 else 0
        return networks.Needs(
            pattern=self.pattern, stacks="encoder_decoder", token_types=languages
        )

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: mass, and accuracy (not differentiated)."""
        smoothing = self.label_smoothing
        return seq2seq.loss_terms("mass", net, batch, label_smoothing=smoothing), ()

    def _draw_begin(self, key: np.ndarray, last: np.ndarray) -> np.ndarray:
        """[B]: the raw token at which the span begins, in 0..last [B]."""
        draw = counter_rng.uniform(key, "begin", 2)
        begin = (draw[:, 0] * (last + 1)).astype(np.int64)
        if self.span_start == "uniform":
            return begin
        first_rate, last_rate = EDGE_RATES
        begin = np.where(draw[:, 1] < first_rate + last_rate, last, begin)
        return np.where(draw[:, 1] < first_rate, 0, begin)
