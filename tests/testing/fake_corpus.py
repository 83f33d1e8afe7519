"""Corpora of generated lines, in memory."""

import random

from research.data.documents import Document
from research.data.read.corpus import Corpus

SIZE, SENTINELS = 420, 7


def corpus_of(texts, name: str = "fake") -> Corpus:
    """A corpus whose splits are all `texts`: a list, or a function that returns it."""
    read = texts if callable(texts) else lambda: texts

    def fingerprint() -> str:
        return repr([name, *read()])

    return Corpus(name, lambda split: map(Document, read()), fingerprint)


def make_lines(seed: int, lines: int = 400) -> list[str]:
    """Lines of words from few syllables, some with punctuation and other scripts."""
    draw = random.Random(seed)
    syllables = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "un")]
    ends = ["", "", "", "", "", ",", ".", "!", "'s", "。", "é", "学", "中文"]

    def word() -> str:
        text = "".join(draw.choices(syllables, k=draw.randint(1, 3)))
        text = text.capitalize() if draw.random() < 0.2 else text
        return text + draw.choice(ends)

    return [" ".join(word() for _ in range(draw.randint(3, 30))) for _ in range(lines)]
