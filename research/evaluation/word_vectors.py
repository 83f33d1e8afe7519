"""Word vectors: nearest neighbours, and the tasks of analogies and similarities."""

# V words, D width, Q questions

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from research.contract.errors import UserError, os_reason, unknown

QUESTIONS_PER_CALL = 256
SPACES = re.compile(r"[ \t]+")
"""Separator of the words and numbers of a line."""
SYNTACTIC = ("gram", "syntactic")
"""Prefixes of the names of sections of syntactic questions."""


class Count(NamedTuple):
    """Answers to the analogies of a section."""

    correct: int
    known: int  # questions whose four words have vectors: the denominator
    total: int

    @property
    def accuracy(self) -> float:
        """The fraction of known questions; NaN if there are none."""
        return self.correct / self.known if self.known else float("nan")


class Similarity(NamedTuple):
    """The agreement of a file of rated pairs with the cosines of their vectors."""

    spearman: float  # over the known pairs; NaN if there are fewer than three
    known: int
    total: int


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words with a vector each, the most frequent first.

    If a word occurs twice, its first vector counts.

    Attributes:
      words: [V].
      vectors: [V, D] float32.
      compose: word -> vector [D] of an unknown word; None: it has none.
    """

    words: Sequence[str]
    vectors: np.ndarray
    compose: Callable[[str], np.ndarray] | None = None

    def __post_init__(self):
        if len(self.words) != len(self.vectors):
            raise UserError(
                f"there are {len(self.words)} words, but {len(self.vectors)} vectors"
            )

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._index

    def __getitem__(self, word: str) -> np.ndarray:
        """The vector [D] of a word; of an unknown one by `compose`.

        Raises:
          UserError: it has none; the line names similar words.
        """
        if word in self._index:
            return self.vectors[self._index[word]]
        if self.compose is None:
            raise unknown("word", word, self.words[:50_000])
        vector = self.compose(word)
        if not vector.any():
            raise UserError(
                f"{word!r} has no vector: it shares no n-gram with a known word"
            )
        return vector

    @functools.cached_property
    def _index(self) -> dict[str, int]:
        return _first_index(self.words)

    @functools.cached_property
    def unit(self) -> np.ndarray:
        """[V, D]: the vectors with length 1; a zero vector stays 0."""
        norm = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        return self.vectors / np.where(norm > 0, norm, 1)

    def nearest(self, word: str, count: int = 10) -> list[tuple[str, float]]:
        """The words with the highest cosines, except `word`.

        Raises:
          UserError: `word` has no vector.
        """
        vector = self[word]
        cosine = self.unit @ (vector / (np.linalg.norm(vector) or 1))
        order = np.argsort(-cosine, kind="stable")[: count + 1]
        found = [(self.words[i], float(cosine[i])) for i in order]
        return [pair for pair in found if pair[0] != word][:count]

    def first(self, count: int) -> "WordVectors":
        """Only the first `count` words; others have no vector. 0: all."""
        if not count:
            return self
        return WordVectors(self.words[:count], self.vectors[:count])

    def answer_analogies(self, path: Path) -> dict[str, Count]:
        """Section -> its `Count`, as the tool of word2vec counts them.

        A question a b c d is answered by the word whose vector has the highest cosine
        with b - a + c, other than a, b and c. Case is ignored; of words that differ
        only in case the first one is used. Questions with an unknown word, including d,
        are skipped (tmikolov/word2vec at 20c129a, compute-accuracy.c, which uses the
        first 30,000 words: `first`).

        Raises:
          UserError: the file has no questions, or a line without four words.
        """
        names = [word.upper() for word in self.words]
        index = _first_index(names)
        found: dict[str, Count] = {}
        for section, questions in _sections(path):
            known = [q for q in questions if all(word in index for word in q)]
            ids = np.array([[index[word] for word in q] for q in known]).reshape(-1, 4)
            correct = 0
            for start in range(0, len(ids), QUESTIONS_PER_CALL):
                part = ids[start : start + QUESTIONS_PER_CALL]
                best = self._complete(part[:, :3])
                answers = zip(best, part[:, 3], strict=True)
                correct += sum(names[a] == names[b] for a, b in answers)
            before = found.get(section, Count(0, 0, 0))
            now = (correct, len(known), len(questions))
            found[section] = Count(*map(sum, zip(before, now, strict=True)))
        return found

    def _complete(self, given: np.ndarray) -> np.ndarray:
        """[Q]: the answers to questions a b c [Q, 3]."""
        a, b, c = (self.unit[given[:, column]] for column in range(3))
        cosine = (b - a + c) @ self.unit.T
        np.put_along_axis(cosine, given, -np.inf, axis=1)
        return cosine.argmax(axis=1)

    def compare_similarities(self, path: Path) -> Similarity:
        """Spearman's correlation of cosines with the numbers of a file.

        Its lines have two words and a number, separated by tabs or spaces. Case is
        ignored.

        Raises:
          UserError: the file has no pairs, or a line has another form.
        """
        index = _first_index([word.upper() for word in self.words])
        pairs = list(_pairs(path))
        known = [p for p in pairs if p[0] in index and p[1] in index]
        if len(known) < 3:
            return Similarity(float("nan"), len(known), len(pairs))
        first, second = (
            self.unit[[index[pair[side]] for pair in known]] for side in (0, 1)
        )
        gold = [pair[2] for pair in known]
        result = stats.spearmanr(gold, (first * second).sum(axis=1))
        return Similarity(float(result.statistic), len(known), len(pairs))


def sums(counts: dict[str, Count]) -> dict[str, Count]:
    """The counts of semantic, of syntactic and of all sections."""

    def add(chosen: Iterable[Count]) -> Count:
        columns = zip(*chosen, strict=True)
        return Count(*(sum(column) for column in columns or ())) if chosen else None

    groups = {
        "semantic": [c for n, c in counts.items() if not n.startswith(SYNTACTIC)],
        "syntactic": [c for n, c in counts.items() if n.startswith(SYNTACTIC)],
        "all": [*counts.values()],
    }
    return {name: add(chosen) for name, chosen in groups.items() if chosen}


def _first_index(words: Sequence[str]) -> dict[str, int]:
    """Word -> the index of its first occurrence."""
    return {word: n for n, word in reversed([*enumerate(words)])}


def _sections(path: Path) -> Iterator[tuple[str, list[list[str]]]]:
    """Name and questions of each section, in capital letters."""
    section, questions, any_question = "questions", [], False
    for number, line in _lines(path):
        if line.startswith(":"):
            if questions:
                yield section, questions
            section, questions = line[1:].strip(), []
            continue
        words = SPACES.split(line.upper())
        if len(words) != 4:
            raise UserError(f"{path}, line {number}: not four words, but {line!r}")
        questions.append(words)
        any_question = True
    if questions:
        yield section, questions
    if not any_question:
        raise UserError(f"{path} has no questions: lines of four words")


def _pairs(path: Path) -> Iterator[tuple[str, str, float]]:
    """Two words in capital letters, and the number, of each line."""
    number = 0
    for number, line in _lines(path):
        try:
            first, second, score = SPACES.split(line.upper())
            if not math.isfinite(judged := float(score)):
                raise ValueError(score)
        except ValueError as error:
            raise UserError(
                f"{path}, line {number}: not two words and a number, but {line!r}"
            ) from error
        yield first, second, judged
    if not number:
        raise UserError(f"{path} has no pairs: lines of two words and a number")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Number and text of each line that is not empty."""
    try:
        text = Path(path).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({os_reason(error)})") from error
    for number, line in enumerate(text.split("\n"), 1):
        if stripped := line.strip(" \t\r"):
            yield number, stripped
