"""Denoising autoencoding, text to text (T5, Raffel et al. 2020, section 3.3).

The encoder reads a corrupted text; the decoder writes the hidden tokens, or the whole
text. A network of one stack reads input and target as one text.
"""

# B batch, R raw tokens, L encoder length, T decoder length

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import numpy as np

from research import networks, objectives
from research.contract.batch import ArraySpec, Batch, Example, VocabInfo
from research.contract.errors import UserError
from research.contract.fields import choice, number
from research.data.rows import TextSpec
from research.objectives.dae import infilling
from research.objectives.layout import seq2seq, text_to_text
from research.objectives.layout.prompt import Prompt
from research.objectives.layout.specials import Specials
from research.objectives.losses.cross_entropy import Term
from research.objectives.noise import scoring, spans
from research.objectives.noise.spans import Lengths, span_corruption_lengths

NOISE_MASKS = ("spans", "iid", "prefix", "all")
REPLACEMENTS = ("sentinel", "mask", "bert", "drop", "shuffle")
TARGETS = ("spans", "whole")
MODES = ("", "R", "S", "X")
"""Modes of UL2's denoisers; the token of mode n is the n-th sentinel from the end."""

IN_PLACE = ("mask", "bert", "shuffle")
"""Replacements that keep the length and do not change special tokens of the text."""

RANDOM_FRACTION = 0.1
"""Fraction of random tokens in the replacement "bert" (T5: 10 %, the rest masks)."""

SHUFFLED = "the input has every token of the target, in another order"
"""The reason that `shown_answers` gives if tokens are shuffled and none is hidden."""


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """The text fills the encoder; the decoder starts with pad; both end with eos.

    noise_mask: spans (T5's: the text starts visible and ends hidden), iid (each token
      independently, neighbours form a span), prefix (a suffix of uniform length with
      mean `rate` is hidden), all.
    replacement: what the encoder reads for hidden tokens: sentinel (one for each span),
      mask (one for each token), bert (90 % masks, 10 % random tokens), drop (nothing),
      shuffle (the same tokens in random order).
    target: spans (the hidden tokens; with replacement sentinel also a sentinel for each
      visible run) or whole (the text).
    layout: encoder_decoder, or a network of one stack that reads an input of
      `data.length` tokens and then the target: decoder (causal; both are scored),
      prefix (a prefix LM; the target is scored). See `inputs.text_to_text`.

    The variants in T5's tables are: (iid, bert, whole) BERT-style, (iid, mask, whole)
    MASS-style, (iid or spans, sentinel, spans), (iid, drop, spans), (all, shuffle,
    whole) deshuffling, (prefix, drop, spans) at rate 0.5 prefix language modelling.
    Sentinels of visible and hidden runs are counted separately: if a text starts
    hidden, its target begins with that span and no sentinel; if it ends visible, its
    target ends with a sentinel.
    """

    rate: float = number(0.15, above=0, below=1)  # fraction of the text that is hidden
    mean_span: float = number(3.0, least=1)  # mean length of a hidden span (spans)
    noise_mask: str = choice("spans", NOISE_MASKS)
    replacement: str = choice("sentinel", REPLACEMENTS)
    target: str = choice("spans", TARGETS)
    mode: str = choice("", MODES)  # mode token before the encoder's text (UL2)
    layout: str = choice("encoder_decoder", text_to_text.LAYOUTS)
    label_smoothing: float = number(0.0, least=0, below=1)  # fraction of the target's
    # probability that is spread over the vocabulary
    z_loss: float = number(0.0, least=0)  # factor of log(Z)^2 (T5's code: 1e-4)

    token_terms = ("dae",)
    written_format = "t5"
    score_methods: ClassVar = scoring.INFILL_METHODS

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.noise_mask == "prefix" and self.rate > 0.5:
            raise ValueError(
                f"rate is at most 0.5 where noise_mask is prefix, not {self.rate}"
            )
        if self.noise_mask == "all" and self.replacement != "shuffle":
            raise ValueError("noise_mask all needs replacement shuffle")
        if self.replacement == "shuffle" and self.target != "whole":
            raise ValueError("replacement shuffle needs target whole")

    @property
    def pattern(self) -> str:
        return text_to_text.PATTERNS[self.layout]

    def lengths(self, length: int) -> Lengths:
        """The raw tokens and the decoder's length for an encoder of `length`."""
        length -= bool(self.mode)
        if self.noise_mask == "spans":
            return span_corruption_lengths(
                length, self.rate, self.mean_span, self.replacement, self.target
            )
        raw, sentinels = length - 1, int(self.replacement == "sentinel")
        if self.target == "whole":
            return Lengths(raw, raw + 1)
        if self.noise_mask == "iid":
            room = spans.max_iid_counts(raw, self.rate)
            return Lengths(raw, room.hidden + sentinels * (room.spans + 1) + 1)
        return Lengths(raw, int(spans.max_suffix(raw, self.rate)) + sentinels + 1)

    def _joined_length(self, length: int) -> int:
        """The most tokens of an input and its target together."""
        if self.noise_mask == "prefix" and self.target == "spans":
            specials = 2 + bool(self.mode) + 2 * (self.replacement == "sentinel")
            if self.replacement in ("sentinel", "drop"):
                return self.lengths(length).raw + specials
        return length + self.lengths(length).target

    def num_sentinels(self, length: int) -> int:
        """The most sentinels that a text may need, including those of modes."""
        raw, modes = self.lengths(length).raw, bool(self.mode) * (len(MODES) - 1)
        if self.replacement != "sentinel":
            return modes
        if self.noise_mask == "spans":
            counts = spans.span_counts(raw, self.rate, self.mean_span)
            return modes + int(counts.spans)
        if self.noise_mask == "iid":
            return modes + spans.max_iid_counts(raw, self.rate).spans + 1
        return modes + 1

    @property
    def shown_answers(self) -> dict[str, str]:
        if self.replacement == "shuffle":
            return {"dae": SHUFFLED}
        whole = {"dae": "the target is the text, hidden or not"}
        return whole if self.target == "whole" else {}

    @property
    def min_length(self) -> int:
        """The mode, a sentinel or a token, eos."""
        return 2 + bool(self.mode)

    def text_spec(self, length: int) -> TextSpec:
        return TextSpec("stream", self.lengths(length).raw)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        num_target = self.lengths(length).target
        joined = self._joined_length(length)
        return text_to_text.batch_spec(length, num_target, joined, self.layout)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides part of the text.

        Raises:
          UserError: there are fewer sentinels than a text of full length may need.
        """
        full, needed = self.lengths(length), self.num_sentinels(length)
        if needed > len(vocab.sentinel_ids):
            raise UserError(
                f"objective dae at length {length}, rate {self.rate}, mean_span "
                f"{self.mean_span} needs {needed} sentinels; data.sentinels: "
                f"{len(vocab.sentinel_ids)}"
            )
        token = example.token[:, : full.raw]
        num_raw = np.minimum(example.length, full.raw)
        valid = np.arange(token.shape[1]) < num_raw[:, None]
        hidden = self._draw_noise_mask(key, num_raw, token.shape[1], full.raw)
        if self.replacement in IN_PLACE:
            hidden &= ~vocab.is_special[token]
        runs = spans.find_runs(hidden, valid)
        mode = self._mode_ids(vocab)
        read, kept = self._encoder_tokens(token, hidden, runs, key, vocab)
        nonempty = num_raw > 0
        encoder = seq2seq.pack(read, kept & valid, nonempty, vocab, length, *mode)
        written, kept = self._target_tokens(token, hidden, runs, vocab)
        target = seq2seq.pack(written, kept & valid, nonempty, vocab, full.target)
        joined = self._joined_length(length)
        return text_to_text.make_batch(
            encoder, target, vocab, joined, self.layout, vocab.pad_id
        )

    def score_rows(
        self,
        example: Example,
        scored: np.ndarray,
        vocab: VocabInfo,
        length: int,
        method: str,
    ) -> scoring.ScoreRows:
        """One row per word or token, which the encoder does not read.

        The hidden tokens are scored, given those before them in the target. With target
        spans the target begins with the first sentinel even if the text starts hidden.

        Raises:
          UserError: the noise hides no spans inside a text.
        """
        if self.noise_mask not in ("spans", "iid") or self.replacement == "shuffle":
            scoring.refuse(f"objective dae with {self.noise_mask}, {self.replacement}")
        if self.replacement == "bert":
            self = replace(self, replacement="mask")
        hidden = scoring.HIDE[method](example, scored)
        token, _, size, *_ = example.rows(hidden.text)
        valid = np.arange(token.shape[1]) < size[:, None]
        runs, key = spans.find_runs(hidden.mask, valid), np.zeros(len(size), np.uint64)
        read, kept = self._encoder_tokens(token, hidden.mask, runs, key, vocab)
        mode = self._mode_ids(vocab)
        encoder = seq2seq.pack(read, kept & valid, size > 0, vocab, length, *mode)
        whole = self.target == "whole"
        marked = self.replacement == "sentinel" and not whole
        arrays = infilling.make_batch(
            encoder,
            token,
            hidden.mask,
            valid,
            vocab,
            whole=whole,
            first_id=vocab.sentinel_ids[0] if marked else None,
            layout=self.layout,
        )
        return scoring.ScoreRows(hidden.text, arrays)

    def for_evaluation(self) -> "Objective":
        """The objective whose loss is only -log p."""
        return self.with_fields(label_smoothing=0.0, z_loss=0.0)

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """Inputs in which sentinels or masks stand for hidden tokens."""
        mode = self._mode_ids(vocab)
        rows = [[*mode, *text, vocab.eos_id] for text in texts]
        return text_to_text.prompt(rows, vocab, self.layout, vocab.pad_id)

    def specials(self, vocab: VocabInfo) -> Specials:
        """The specials of an input: its mode before it and eos after it."""
        mode = self._mode_ids(vocab)
        return text_to_text.specials(mode, vocab, self.layout)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        return text_to_text.needs(self.layout)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: dae, and accuracy (not differentiated)."""
        factors = {"label_smoothing": self.label_smoothing, "z_loss": self.z_loss}
        return text_to_text.loss_terms("dae", net, batch, self.layout, **factors), ()

    def _mode_ids(self, vocab: VocabInfo) -> list[int]:
        """The token of the mode, if there is one."""
        return [vocab.sentinel_ids[-MODES.index(self.mode)]] if self.mode else []

    def _draw_noise_mask(
        self, key: np.ndarray, num_raw: np.ndarray, width: int, max_raw: int
    ) -> np.ndarray:
        """[B, R] bool: the hidden tokens; `max_raw` is the longest text's length."""
        if self.noise_mask == "spans":
            return spans.random_spans_noise_mask(
                key, num_raw, width, self.rate, self.mean_span
            )
        if self.noise_mask == "prefix":
            return spans.suffix_noise_mask(key, num_raw, width, self.rate)
        if self.noise_mask == "iid":
            room = spans.max_iid_counts(max_raw, self.rate)
            return spans.iid_noise_mask(key, num_raw, width, self.rate, room)
        return np.arange(width) < num_raw[:, None]

    def _encoder_tokens(
        self,
        token: np.ndarray,
        hidden: np.ndarray,
        runs: spans.Runs,
        key: np.ndarray,
        vocab: VocabInfo,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens [B, R] for the encoder, and which of them [B, R] it reads."""
        if self.replacement == "sentinel":
            return spans.insert_sentinels(token, ~hidden, runs, vocab)
        if self.replacement == "drop":
            return token, ~hidden
        if self.replacement == "shuffle":
            return spans.shuffle_tokens(token, hidden, key), np.ones_like(hidden)
        random = RANDOM_FRACTION if self.replacement == "bert" else 0.0
        replaced = spans.replace_tokens(
            token, hidden, key, vocab, mask_fraction=1 - random, random_fraction=random
        )
        return replaced, np.ones_like(hidden)

    def _target_tokens(
        self, token: np.ndarray, hidden: np.ndarray, runs: spans.Runs, vocab: VocabInfo
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tokens [B, R] for the decoder, and which of them [B, R] it writes."""
        if self.target == "whole":
            return token, np.ones_like(hidden)
        if self.replacement == "sentinel":
            return spans.insert_sentinels(token, hidden, runs, vocab)
        return token, hidden
