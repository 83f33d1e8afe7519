"""Questions about single tokens, answered by their text (ERNIE 2.0, Sun et al. 2020).

capital   is the token written with a capital letter? (4.2.1)
document  does the token occur in another segment of its document, too? (4.2.1)
"""

# B batch, L length, R raw tokens an example

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import (
    SENTENCE,
    ArraySpec,
    Example,
    TextSpec,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.errors import UserError
from research.objectives.inputs import input_format
from research.objectives.losses.cross_entropy import Term, binary_cross_entropy
from research.objectives.mlm import STREAMS

TASKS = ("document", "capital")


@dataclass(frozen=True)
class Objective:
    """TextSpec bos, text, eos, and asks about each token that its looks do not tell.

    capital: tokens are read in lower case, as far as the vocabulary has such a piece;
      asked are those whose piece stands for both.
    document: read is a first segment of whole sentences, at most half of the passage;
      the rest, up to as many tokens as fit a row again, is the other segment.
    """

    task: str = "document"  # document | capital
    format: str = "stream"  # stream | full_sentences | doc_sentences: what capital
    # reads; document reads sentences of a document

    family = "sentence"
    pattern = "full"
    supports_accumulation = True

    def __post_init__(self):
        if self.task not in TASKS:
            raise ValueError(f"task is {' or '.join(TASKS)}, not {self.task!r}")
        if self.format not in STREAMS:
            raise ValueError(f"format is {', '.join(STREAMS)}, not {self.format!r}")

    def text_spec(self, length: int) -> TextSpec:
        if self.task == "capital":
            return TextSpec(STREAMS[self.format], length - 2)
        return TextSpec("passage", 2 * (length - 2))

    def batch_spec(self, length: int) -> dict[str, ArraySpec]:
        return input_specs(length) | scored_specs(length, gathered=False)

    def corrupt(
        self, example: Example, key: np.ndarray, vocab: VocabInfo, length: int
    ) -> dict[str, np.ndarray]:
        """Hides case, or the rest of the document.

        Raises:
          UserError: capital with a vocabulary that has no pieces in both cases.
        """
        if self.task == "capital":
            text = input_format.single(example, vocab, length)
            lower = _lower(vocab)
            small = lower[text.token]
            target = small != text.token
            asked = np.bincount(lower, minlength=vocab.size)[small] > 1
            text.token[:] = small
        else:
            shown, found = _segments(example, vocab, length)
            text = input_format.single(shown, vocab, length)
            target = np.zeros(text.token.shape, bool)
            width = min(found.shape[1], length - 2)
            target[:, 1 : 1 + width] = found[:, :width]
            asked = (shown.length < example.length)[:, None]
        weight = asked & ~vocab.is_special[text.token]
        return input_format.full(text.token, text.length) | {
            "target": (target & weight).astype(np.int32),
            "weight": weight.astype(np.float32),
        }

    def network(self, options: Any, vocab: VocabInfo) -> Any:
        """Raises UserError: capital, and no pieces in both cases."""
        if self.task == "capital":
            _lower(vocab)
        heads = {self.task: models.HeadSpec(1, "none")}
        return models.Transformer(
            options, size=vocab.size, pattern=self.pattern, heads=heads
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: the task; its accuracy and share of yes (neither is trained on)."""
        logits = net.head(self.task, net.states(batch))[..., 0]
        target, weight = batch["target"], batch["weight"]
        told, right = binary_cross_entropy(logits, target, weight)
        yes = jnp.sum(weight * target)
        return {
            self.task: told,
            f"{self.task}_accuracy": Term(right, told.weight, 0.0),
            f"{self.task}_yes": Term(yes, told.weight, 0.0),
        }, ()


def _lower(vocab: VocabInfo) -> np.ndarray:
    """[V]: the piece that is read in place of each."""
    if (
        vocab.lowercase_ids is None
        or (vocab.lowercase_ids == np.arange(vocab.size)).all()
    ):
        raise UserError(
            "objective.task capital needs a data.vocabulary with pieces in both upper "
            "and lower case"
        )
    return vocab.lowercase_ids


def _segments(
    example: Example, vocab: VocabInfo, length: int
) -> tuple[Example, np.ndarray]:
    """The first segment, and [B, R] bool: whether its tokens occur in the rest."""
    row, place = np.arange(len(example.length)), np.arange(example.token.shape[1])
    most = np.minimum(length - 2, (example.length + 1) // 2)[:, None]
    start = (example.flags & SENTENCE > 0) & (place > 0) & (place <= most)
    last = np.where(start, place, 0).max(axis=1, initial=0)
    cut = np.where(last > 0, last, most[:, 0]).astype(np.int32)
    own = row[:, None] * (example.token.max(initial=0) + 1) + example.token
    rest = (place >= cut[:, None]) & (place < example.length[:, None])
    here = place < cut[:, None]
    found = np.isin(own, own[rest]) & here
    token = np.where(here, example.token, vocab.pad_id)
    return example._replace(token=token, length=cut, first_length=cut), found
