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
    Example,
    Reads,
    Spec,
    Symbols,
    group_specs,
    scored_specs,
)
from research.errors import UserError
from research.objectives.inputs import input_format
from research.objectives.losses.cross_entropy import Term, binary
from research.objectives.mlm import STREAMS

TASKS = ("document", "capital")


@dataclass(frozen=True)
class Objective:
    """Reads bos, text, eos, and asks about each token that its looks do not tell.

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
    splits = True

    def __post_init__(self):
        if self.task not in TASKS:
            raise ValueError(f"task is {' or '.join(TASKS)}, not {self.task!r}")
        if self.format not in STREAMS:
            raise ValueError(f"format is {', '.join(STREAMS)}, not {self.format!r}")

    def reads(self, length: int) -> Reads:
        if self.task == "capital":
            return Reads(STREAMS[self.format], length - 2)
        return Reads("passage", 2 * (length - 2))

    def arrays(self, length: int) -> dict[str, Spec]:
        return group_specs(length) | scored_specs(length, gathered=False)

    def corrupt(
        self, example: Example, key: np.ndarray, symbols: Symbols, length: int
    ) -> dict[str, np.ndarray]:
        """Hides case, or the rest of the document.

        Raises:
          UserError: capital with a vocabulary that has no pieces in both cases.
        """
        if self.task == "capital":
            text = input_format.single(example, symbols, length)
            lower = _lower(symbols)
            small = lower[text.token]
            target = small != text.token
            asked = np.bincount(lower, minlength=symbols.size)[small] > 1
            text.token[:] = small
        else:
            shown, found = _segments(example, symbols, length)
            text = input_format.single(shown, symbols, length)
            target = np.zeros(text.token.shape, bool)
            width = min(found.shape[1], length - 2)
            target[:, 1 : 1 + width] = found[:, :width]
            asked = (shown.length < example.length)[:, None]
        weight = asked & ~symbols.special[text.token]
        return input_format.full(text.token, text.length) | {
            "target": (target & weight).astype(np.int32),
            "weight": weight.astype(np.float32),
        }

    def network(self, options: Any, symbols: Symbols) -> Any:
        """Raises UserError: capital, and no pieces in both cases."""
        if self.task == "capital":
            _lower(symbols)
        heads = {self.task: models.HeadSpec(1, "none")}
        return models.Transformer(
            options, size=symbols.size, pattern=self.pattern, heads=heads
        )

    def loss(self, net: Any, batch: dict, key: Any) -> tuple[dict[str, Term], Any]:
        """Terms: the task; its accuracy and share of yes (neither is trained on)."""
        logits = net.head(self.task, net.states(batch))[..., 0]
        target, weight = batch["target"], batch["weight"]
        told, right = binary(logits, target, weight)
        yes = jnp.sum(weight * target)
        return {
            self.task: told,
            f"{self.task}_accuracy": Term(right, told.weight, 0.0),
            f"{self.task}_yes": Term(yes, told.weight, 0.0),
        }, ()


def _lower(symbols: Symbols) -> np.ndarray:
    """[V]: the piece that is read in place of each."""
    if symbols.lower is None or (symbols.lower == np.arange(symbols.size)).all():
        raise UserError(
            "objective.task capital needs a data.vocabulary with pieces in both upper "
            "and lower case"
        )
    return symbols.lower


def _segments(
    example: Example, symbols: Symbols, length: int
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
    token = np.where(here, example.token, symbols.pad)
    return example._replace(token=token, length=cut, first=cut), found
