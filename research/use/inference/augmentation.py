"""TinyBERT's augmentation of a task's text: words replaced by ones that fit.

Jiao et al. 2020, section 3.2 and algorithm 1; huawei-noah/Pretrained-Language-Model,
TinyBERT/data_augmentation.py. Differences from the released code: a word has letters of
any alphabet; text between words, and a capital at the start of a word, are kept; a
candidate is not a special token.
"""

# M candidates of a word

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from research.data.read.word_patterns import MARKS
from research.data.tokenize.masked_text import encode_around_masks
from research.evaluation.word_vectors import WordVectors
from research.generation.fill import make_fill
from research.use.inference.language_model import LanguageModel, padded_width

FUNCTION_WORDS = """
a an the this that these those
i me my mine myself we us our ours ourselves you your yours yourself yourselves
he him his himself she her hers herself it its itself they them their theirs themselves
who whom whose which what one
am is are was were be been being do does did doing have has had having
can could may might must shall should will would
isn aren wasn weren don doesn didn haven hasn hadn couldn mightn mustn shan shouldn won
wouldn ain ll re ve s t d m
no nor not never neither either and or but if because as than then so while until
of at by for with from to in into on onto off out up down over under about against
between through during before after above below upon
again further once here there when where why how all any both each few more most other
another some such only own same too very just now also
"""
STOP_WORDS = frozenset(FUNCTION_WORDS.split())
"""English words that stay: those with a grammatical function, and what contractions
leave (a declared list; the released code has NLTK's)."""
WORD = re.compile(rf"[^\W_](?:[^\W_]|[{MARKS}])*")
BATCH = 32


class Word(NamedTuple):
    """A word of a text that may be replaced."""

    begin: int
    end: int
    candidates: list[str]


class Counts(NamedTuple):
    """Numbers of words in texts, by what was found for them."""

    by_model: int
    by_vectors: int
    without: int  # no candidate


class Augmenter:
    """Finds words that may replace others."""

    def __init__(
        self,
        model: LanguageModel,
        vectors: WordVectors,
        *,
        candidates: int = 15,
        stop_words: frozenset[str] = STOP_WORDS,
    ):
        """Raises UserError: the model predicts no masked tokens, or has no readout.

        Args:
          vectors: those of words with several pieces, and of their neighbours.
          candidates: M, for each word.
          stop_words: lower-case words that are kept.
        """
        model.check_readout()
        run = model.run
        vocab = run.vocabulary.vocab
        parts = run.objective, run.network, run.params, vocab, run.mesh
        self._fill = make_fill(*parts, top_k=candidates, batch=BATCH)
        self._vocabulary, self._length = run.vocabulary, run.config.data.length
        self._vectors, self._count, self._stop_words = vectors, candidates, stop_words
        self._nearest: dict[str, list[str]] = {}

    def words(self, texts: Sequence[str]) -> tuple[list[list[Word]], Counts]:
        """The words of each text that may be replaced, in order, with candidates.

        The candidates of a word of one piece are the masked LM's M most probable tokens
        that start a word; it reads the text with the word masked, then the whole text.
        For a word of several pieces or beyond the network's length, they are the M
        words with the nearest vectors, or none.
        """
        found: list[list[Word]] = [[] for _ in texts]
        rows, places, counts = [], [], dict.fromkeys(Counts._fields, 0)
        for number, text in enumerate(texts):
            whole = self._vocabulary.encode(text)[0].tolist()
            for match in WORD.finditer(text):
                word = match[0]
                if not _is_of_letters(word) or word.lower() in self._stop_words:
                    continue
                begin, end = match.span()
                around = [text[:begin], text[end:]]
                masked = encode_around_masks(self._vocabulary, around)
                if len(masked) == len(whole) and self._fits(masked):
                    places.append((number, len(found[number])))
                    rows.append((masked, whole))
                    near = []
                else:
                    near = [_as(word, other) for other in self._neighbours(word)]
                    counts["by_vectors" if near else "without"] += 1
                found[number].append(Word(begin, end, near))
        for (number, at), tokens in zip(places, self._filled(rows), strict=True):
            old = found[number][at]
            spelled = texts[number][old.begin : old.end]
            near = [_as(spelled, other) for other in tokens]
            counts["by_model" if near else "without"] += 1
            found[number][at] = old._replace(candidates=near)
        kept = [[word for word in words if word.candidates] for words in found]
        return kept, Counts(**counts)

    def _fits(self, masked: list[int]) -> bool:
        """Whether the mask is within the positions that are read."""
        return masked.index(self._vocabulary.vocab.mask_id) < self._length - 3

    def _filled(
        self, rows: Sequence[tuple[list[int], list[int]]]
    ) -> Iterator[list[str]]:
        """The words that the model predicts for the mask of each row."""
        by_width: dict[int, list[int]] = {}
        room = self._length - 3  # beside special tokens
        cut = [
            (masked[:room], whole[: max(0, room - len(masked))])
            for masked, whole in rows
        ]
        for number, (masked, whole) in enumerate(cut):
            width = min(padded_width(len(masked) + len(whole) + 3), self._length)
            by_width.setdefault(width, []).append(number)
        found: dict[int, list[str]] = {}
        for width, numbers in by_width.items():
            # As many rows as whole batches have, so that few shapes are compiled.
            more = [numbers[-1]] * (-len(numbers) % BATCH)
            own = [cut[number] for number in [*numbers, *more]]
            masked, beside = map(list, zip(*own, strict=True))
            filled = self._fill(masked, beside, width=width)
            for number, (candidates, *_) in zip(numbers, filled, strict=False):
                found[number] = self._spelled(candidates)
        return (found[number] for number in range(len(rows)))

    def _spelled(self, candidates: Sequence[Any]) -> list[str]:
        """The words of tokens, except those that continue a word or have no text."""
        vocab, words = self._vocabulary.vocab, []
        for candidate in candidates:
            text = self._vocabulary.piece_text(candidate.token)
            is_text = not vocab.is_special[candidate.token]
            is_text = is_text and candidate.token != vocab.unk_id
            if is_text and text[:1] == " ":
                words.append(text.strip())
        return [word for word in words if word.split() == [word]]

    def _neighbours(self, word: str) -> list[str]:
        """The words with the nearest vectors; []: this word has none."""
        known = word if word in self._vectors else word.lower()
        if known not in self._nearest:
            near = []
            if known in self._vectors:
                near = [other for other, _ in self._vectors.nearest(known, self._count)]
            self._nearest[known] = [w for w in near if w.split() == [w]]
        return self._nearest[known]


def _is_of_letters(word: str) -> bool:
    """Whether a word consists only of letters and their marks."""
    return all(unicodedata.category(each)[0] in "LM" for each in word)


def _as(word: str, other: str) -> str:
    """The other word, capitalized if the word is."""
    return other[:1].upper() + other[1:] if word[0].isupper() else other


def variants(
    text: str,
    words: Sequence[Word],
    *,
    passes: int,
    probability: float,
    seed: Sequence[int],
) -> list[str]:
    """The new texts that the passes make from a text.

    A pass draws a candidate for each word, and substitutes it with the probability.

    Args:
      seed: seeds the draws, e.g. the run's seed, the row and the column.
    """
    rng, found = np.random.default_rng(seed), {text: None}
    for _ in range(passes):
        parts, end = [], 0
        for word in words:
            other = word.candidates[rng.integers(len(word.candidates))]
            if rng.random() < probability:
                parts += [text[end : word.begin], other]
                end = word.end
        found.setdefault("".join([*parts, text[end:]]))
    return [*found][1:]
