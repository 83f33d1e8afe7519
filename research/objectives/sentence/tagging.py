"""Binary classification of single tokens from their text (ERNIE 2.0, Sun et al. 2020).

capital   whether the token is capitalised (4.2.1)
document  whether the token also occurs in another segment of its document (4.2.1)
"""

# B batch, L length, R raw tokens an example

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from research import networks, objectives
from research.contract.batch import (
    SENTENCE,
    ArraySpec,
    Batch,
    Example,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.contract.errors import UserError
from research.contract.fields import choice
from research.data.rows import TextSpec
from research.objectives.layout import input_format
from research.objectives.layout.input_format import SINGLE_FORMATS
from research.objectives.losses.cross_entropy import (
    Term,
    binary_cross_entropy,
    with_accuracy,
)

TABLE_SIZE = 2**20
"""Entries of the table of the tokens that occur in each row."""


@dataclass(frozen=True)
class Objective(objectives.Objective):
    """Reads bos, text, eos; scores tokens whose input does not reveal their label.

    capital: tokens are replaced by their lower-case form if the vocabulary has it;
      tokens that stand for both cases are scored.
    document: the input is the first segment of a passage, in whole sentences up to half
      of it; the other segment is the rest, up to the length of a row.
    """

    task: str = choice("document", ("document", "capital"))
    format: str = choice("stream", tuple(SINGLE_FORMATS))  # for task capital; document
    # always reads sentences of one document

    pattern = "full"
    min_length = 3  # bos, a token, eos
    shown_answers: ClassVar = {
        task: "what is asked of a token depends on the token, which is read"
        for task in ("document", "capital")
    }

    def text_spec(self, length: int) -> TextSpec:
        if self.task == "capital":
            return TextSpec(SINGLE_FORMATS[self.format], length - 2)
        return TextSpec("passage", 2 * (length - 2))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return input_specs(length) | scored_specs(length, gathered=False)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides the case of letters, or the rest of the document.

        Raises:
          UserError: task capital, but the vocabulary has no pieces in both cases.
        """
        if self.task == "capital":
            text = input_format.single(example, vocab, length)
            lowercase_ids = _lowercase_ids(vocab)
            lower = lowercase_ids[text.token]
            target = lower != text.token
            scored = np.bincount(lowercase_ids, minlength=vocab.size)[lower] > 1
            text.token[:] = lower
        else:
            first, repeated = _split_passage(example, vocab, length)
            text = input_format.single(first, vocab, length)
            target = np.zeros(text.token.shape, bool)
            width = min(repeated.shape[1], length - 2)
            target[:, 1 : 1 + width] = repeated[:, :width]
            scored = (first.length < example.length)[:, None]
        weight = scored & ~vocab.is_special[text.token]
        return input_format.full_input(text.token, text.length) | {
            "target": (target & weight).astype(np.int32),
            "weight": weight.astype(np.float32),
        }

    def needs(self, vocab: VocabInfo) -> networks.Needs:
        """Raises UserError: task capital, but no piece exists in both cases."""
        if self.task == "capital":
            _lowercase_ids(vocab)
        heads = {self.task: networks.HeadSpec(1, "none")}
        return networks.Needs(pattern=self.pattern, heads=heads)

    def loss(
        self, net: networks.BoundNetwork, batch: Batch, key: jax.Array
    ) -> tuple[dict[str, Term], Any]:
        """Terms: the task; metrics: its accuracy and the fraction of label 1."""
        logits = net.head(self.task, net.states(batch))[..., 0]
        target, weight = batch["target"], batch["weight"]
        term, correct = binary_cross_entropy(logits, target, weight)
        positive = Term(jnp.sum(weight * target), term.weight, 0.0)
        terms = with_accuracy(self.task, term, correct)
        return terms | {f"{self.task}_yes": positive}, ()


def _lowercase_ids(vocab: VocabInfo) -> np.ndarray:
    """[V]: the piece that replaces each piece in the input.

    Raises:
      UserError: no piece has a lower-case form.
    """
    if (
        vocab.lowercase_ids is None
        or (vocab.lowercase_ids == np.arange(vocab.size)).all()
    ):
        raise UserError(
            "objective.task capital needs a data.vocabulary with pieces in both upper "
            "and lower case"
        )
    return vocab.lowercase_ids


def _split_passage(
    example: Example, vocab: VocabInfo, length: int
) -> tuple[Example, np.ndarray]:
    """The first segment, and which of its tokens occur in the rest, [B, W] bool."""
    max_size = np.minimum(length - 2, (example.length + 1) // 2)[:, None]
    position = np.arange(min(length - 1, example.token.shape[1]))
    start = (example.flags[:, : len(position)] & SENTENCE) > 0
    start &= (position > 0) & (position <= max_size)
    last = np.where(start, position, 0).max(axis=1, initial=0)
    cut = np.where(last > 0, last, max_size[:, 0]).astype(np.int32)
    repeated = _occurs_later(example, cut, length - 2, vocab.size)
    first = np.arange(example.token.shape[1]) < cut[:, None]
    token = np.where(first, example.token, np.int32(vocab.pad_id))
    return example._replace(token=token, length=cut, first_length=cut), repeated


def _occurs_later(
    example: Example, cut: np.ndarray, width: int, vocab_size: int
) -> np.ndarray:
    """[B, min(R, W)] bool: whether a token before the `cut` [B] also occurs after it.

    It processes a few rows at a time, so that the table of their tokens stays small.

    Args:
      width: W, at least every cut.
    """
    position = np.arange(example.token.shape[1])
    rest = (position >= cut[:, None]) & (position < example.length[:, None])
    repeated = position[:width] < cut[:, None]
    num_rows = max(1, TABLE_SIZE // vocab_size)
    occurs = np.zeros(num_rows * vocab_size, bool)
    for begin in range(0, len(cut), num_rows):
        some = slice(begin, begin + num_rows)
        token = example.token[some]
        index = token + vocab_size * np.arange(len(token))[:, None]
        later = index.ravel()[np.flatnonzero(rest[some])]
        occurs[later] = True
        repeated[some] &= occurs.take(index[:, :width])
        occurs[later] = False
    return repeated
