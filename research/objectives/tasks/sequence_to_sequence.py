"""Sequence to sequence: generates a document's other parts from its first one.

It fine-tunes networks for translation, summarisation and tasks in T5's text-to-text
form (Raffel et al. 2020, section 2.4; Lewis et al. 2020, section 3.2).
"""

# B batch, R raw tokens, L input length, T target length

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from research import networks
from research.contract.batch import ArraySpec, Batch, ConstantSpec, Example, VocabInfo
from research.contract.fields import choice, free_text, number
from research.data.rows import TextSpec
from research.objectives.layout import languages, seq2seq, text_to_text
from research.objectives.layout.prompt import Prompt, in_languages
from research.objectives.layout.specials import Specials
from research.objectives.losses.cross_entropy import Term
from research.objectives.tasks import task_input

FORMATS = ("t5", "bart", "xlm")


@dataclass(frozen=True)
class Objective(task_input.Task):
    """Reads a document's first part; the target is all others; both end with eos.

    t5    nothing precedes the parts; the decoder's first input is pad (T5's code).
    bart  bos precedes both; the decoder's first input is eos (as in its pretraining).
    xlm   eos precedes the first part and is the decoder's first input (XNLG).

    A part that is too long is truncated before its eos. A document of one part is not
    scored.

    layout: encoder_decoder, or a network of one stack that reads an input of
      `data.length` tokens and then the target: decoder or prefix, see
      `inputs.text_to_text`.
    """

    target_length: int = number(64, least=2)  # tokens of the target, with specials
    format: str = choice("t5", FORMATS)
    layout: str = choice("encoder_decoder", text_to_text.LAYOUTS)
    languages: str = free_text("")  # token types of the input and the target, such as
    # 0:1, or 0 for both; "": none
    label_smoothing: float = number(0.0, least=0, below=1)  # fraction of the target's
    # probability that is spread over the vocabulary (T5 and BART: 0.1)
    z_loss: float = number(0.0, least=0)  # factor of log(Z)^2 (T5's code: 1e-4)

    vectors: str = free_text("", source="vectors")  # word vectors that the encoder of
    # layout encoder_decoder reads in addition to its own (task_input.VECTORS); "": none
    vectors_width: int = number(0, least=0, most=2**20)  # their width

    beams: int = number(4, least=1)  # for texts that evaluations generate; 1: greedy
    length_penalty: float = number(0.6, least=0)  # of beam search, alpha of Wu et al.
    # 2016 (T5's beam_search.gin: 4 beams, 0.6)

    predicts = "text"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_length < self.min_length:
            raise ValueError(
                f"target_length must be at least {self.min_length} with format "
                f"{self.format}, not {self.target_length}"
            )
        if self.languages and self.layout != "encoder_decoder":
            raise ValueError(
                f"languages needs layout encoder_decoder, not {self.layout}"
            )
        if self.languages:
            languages.parse_pair(self.languages)
        task_input.check_vectors(self)
        if self.vectors and self.layout != "encoder_decoder":
            raise ValueError(
                f"vectors need an encoder, which layout {self.layout} does not have; "
                "set layout=encoder_decoder, or vectors and vectors_width to none"
            )

    @property
    def _pair(self) -> tuple[int, int]:
        return languages.parse_pair(self.languages)

    @property
    def pattern(self) -> str:
        return text_to_text.PATTERNS[self.layout]

    def text_spec(self, length: int) -> TextSpec:
        first = length - self.num_specials(1)
        second = self.max_new_tokens - 1
        return TextSpec("parts", first + second, max_first=first)

    @property
    def max_new_tokens(self) -> int:
        """The most tokens of a target that are generated, including eos.

        These are all but bart's bos, which ends its prompts.
        """
        return self.target_length - (self.format == "bart")

    def row_length(self, first_length: np.ndarray, length: np.ndarray) -> np.ndarray:
        """[n]: input lengths for `first_length` raw tokens in the first part."""
        return first_length + self.num_specials(1)

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        joined = length + self.target_length
        return text_to_text.batch_spec(length, self.target_length, joined, self.layout)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Lays out the parts; the second one is hidden."""
        spec = self.text_spec(length)
        begin, size = task_input.two_parts(example, spec.length)
        first = length - self.num_specials(1)
        rooms = first, spec.length - first
        position = np.arange(example.token.shape[1])
        answered = (np.minimum(size, rooms) > 0).all(axis=1)
        packed = []
        for part, (room, width) in enumerate(
            zip(rooms, (length, self.target_length), strict=True)
        ):
            end = begin[:, part] + np.minimum(size[:, part], room)
            kept = (position >= begin[:, part, None]) & (position < end[:, None])
            kept &= answered[:, None]
            before = self._before(part, vocab)
            packed.append(
                seq2seq.pack(example.token, kept, answered, vocab, width, *before)
            )
        joined = length + self.target_length
        start = self._decoder_start(vocab)
        source, target = packed
        batch = text_to_text.make_batch(
            source, target, vocab, joined, self.layout, start
        )
        if self.languages:
            for prefix, language in zip(
                ("encoder_", "decoder_"), self._pair, strict=True
            ):
                segment = batch[prefix + "segment"]
                batch[prefix + "token_type"] = (language * segment).astype(np.int32)
        return batch

    def prompt(self, texts: Sequence[Sequence[int]], vocab: VocabInfo) -> Prompt:
        """The first parts with their specials."""
        first, second = (self._before(part, vocab) for part in range(2))
        rows = [[*first, *text, vocab.eos_id] for text in texts]
        start = self._decoder_start(vocab)
        made = text_to_text.prompt(rows, vocab, self.layout, start, second)
        return in_languages(made, *self._pair) if self.languages else made

    def specials(self, vocab: VocabInfo) -> Specials:
        """The specials of the first part."""
        before = self._before(0, vocab)
        specials = text_to_text.specials(before, vocab, self.layout)
        language = self._pair[0] if self.languages else 0
        return specials._replace(
            between=super().specials(vocab).between,
            token_type=language,
            second_type=language,
        )

    def for_evaluation(self) -> "Objective":
        """The objective whose loss is only -log p."""
        return self.with_fields(label_smoothing=0.0, z_loss=0.0)

    def constants(self, vocab: VocabInfo) -> dict[str, ConstantSpec]:
        return task_input.vector_constants(self, vocab)

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        needs = text_to_text.needs(self.layout)
        changes: dict[str, Any] = {"input_features": self.vectors_width}
        if self.languages:
            changes |= {"token_types": max(self._pair) + 1, "languages": True}
        return replace(needs, **changes)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: target, and accuracy (not differentiated)."""
        batch = task_input.with_vectors(self, batch, "encoder_")
        factors = {"label_smoothing": self.label_smoothing, "z_loss": self.z_loss}
        terms = text_to_text.loss_terms("target", net, batch, self.layout, **factors)
        return terms, ()

    def _decoder_start(self, vocab: VocabInfo) -> int:
        return vocab.pad_id if self.format == "t5" else vocab.eos_id

    def _before(self, part: int, vocab: VocabInfo) -> list[int]:
        """The tokens that precede the first part (0) or the target (1)."""
        if self.format == "bart":
            return [vocab.bos_id]
        return [vocab.eos_id] if self.format == "xlm" and part == 0 else []
