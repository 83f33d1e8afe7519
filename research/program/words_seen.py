"""Counts the words read by each training step, for checkpoints at given numbers.

A word is what `str.split` yields; a text that is read twice counts twice. Everything is
a function of (data, seed, step), so a restart finds the same steps.
"""

# S steps, n rows

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from research.config.phases import Phase
from research.contract.errors import UserError
from research.data.source.text_source import TextSource

FILE = "words.json"
"""File in a run's workdir: the words that it sees, and its named checkpoints."""

ROWS_PER_CALL = 2**14
"""Rows whose text is read at once."""

CLOSE = 0.01
"""Training reaches a number of words if it ends within this fraction below it: ten
passes over a text of 9.99 million words count as 100 million."""


class WordPlan(NamedTuple):
    """The words of a run, and the steps at which its named checkpoints are saved."""

    seen: np.ndarray  # [S] int64: words read after each step; [0]: not counted
    steps: Mapping[int, int]  # words -> the step whose count is nearest to them

    def to_json(self) -> dict[str, Any]:
        """The content of FILE."""
        checkpoints = [
            {"words": words, "step": step, "seen": int(self.seen[step - 1])}
            for words, step in self.steps.items()
        ]
        return {"seen": int(self.seen[-1]), "checkpoints": checkpoints}

    def line(self, most: int) -> str:
        """The line printed before a run's first step.

        Args:
          most: train.max_words.
        """
        steps, seen = len(self.seen), int(self.seen[-1])
        text = f"{seen:,} words are seen; checkpoints at {len(self.steps)} numbers of "
        text += f"words are kept ({FILE})"
        if seen < most * (1 - CLOSE):
            text += f"; train.max_words allows about {int(steps * most / seen):,} steps"
        return text

    def seen_by(self, step: int) -> int:
        """The words read up to and including a step, from 1."""
        return int(self.seen[step - 1])


UNCOUNTED = WordPlan(np.zeros(0, np.int64), {})


def make_plan(phases: Sequence[Phase], train: Any) -> WordPlan:
    """The plan for a config's section `train`; without steps if it needs none.

    Raises:
      UserError: words cannot be counted, or exceed train.max_words.
    """
    if not (train.checkpoint_words or train.max_words):
        return UNCOUNTED
    seen = words_seen(phases)
    check_most(seen, train.max_words)
    return WordPlan(seen, steps_of_words(seen, train.checkpoint_words))


def words_seen(phases: Sequence[Phase]) -> np.ndarray:
    """[S] int64: the words read after each step.

    Raises:
      UserError: the text is not read natively, or its words cannot be counted.
    """
    counts = [count for phase in _with_starts(phases) for count in _of_phase(*phase)]
    return np.cumsum(np.concatenate(counts))


def _with_starts(phases: Sequence[Phase]) -> Iterator[tuple[Phase, int]]:
    starts = [0, *(phase.stop for phase in phases)]
    yield from zip(phases, starts, strict=False)


def _of_phase(phase: Phase, start: int) -> Iterator[np.ndarray]:
    """The words of the steps from `start`, several steps at a time."""
    data = phase.program.data
    pipeline, vocabulary = data.train, data.vocabulary
    if not isinstance(pipeline.source, TextSource) or pipeline.buckets:
        raise UserError(
            "train.checkpoint_words and train.max_words count the words of rows of one "
            "length that data.reader=native makes of a corpus; set data.task= and "
            "data.length_buckets=[]"
        )
    begins_word, size = vocabulary.begins_word, pipeline.batch_size
    at_once = max(1, ROWS_PER_CALL // size)
    for first in range(start, phase.stop, at_once):
        steps = np.arange(first, min(first + at_once, phase.stop))
        counter = (steps[:, None] * size + np.arange(size)).ravel()
        text = pipeline.source.texts(counter)
        inside = np.arange(text.token.shape[1]) < text.length[:, None]
        words = (begins_word[text.token] & inside).sum(axis=1)
        yield words.reshape(len(steps), size).sum(axis=1)


def steps_of_words(seen: np.ndarray, wanted: Sequence[int]) -> dict[int, int]:
    """Words -> the step after which the number of words read is nearest to it.

    Args:
      seen: the result of `words_seen`.
      wanted: increasing; numbers that training does not reach are left out.
    """
    reached = [words for words in wanted if seen[-1] >= words * (1 - CLOSE)]
    after = [int(np.abs(seen - words).argmin()) + 1 for words in reached]
    return dict(zip(reached, after, strict=True))


def check_most(seen: np.ndarray, most: int) -> None:
    """Checks that training reads at most this number of words.

    Raises:
      UserError: it reads more; the line names the last possible step.
    """
    if most and seen[-1] > most:
        last = int((seen <= most).sum())
        raise UserError(
            f"train.max_words is {most:,}, but {len(seen):,} steps read "
            f"{int(seen[-1]):,} words; set train.steps={last} ({int(seen[last - 1]):,})"
        )
