"""Sentences with a middle cut out, for `palimpsest score --task=infilling`.

    python -m experiments.studies.infilling wiki-en/valid.jsonl.gz > infilling.jsonl

Reads lines with a `text`. Sentences of 12 to 24 words that begin with a capital are cut
before two of their words, by chance, and printed in any order.
"""

import gzip
import json
import random
import re
import sys
from collections.abc import Iterable, Iterator

WORDS = range(12, 25)


def cut_sentences(texts: Iterable[str]) -> Iterator[dict[str, str]]:
    """The prefix, middle and suffix of each sentence; none is empty."""
    rng, sentences = random.Random(0), []
    for text in texts:
        for sentence in re.split(r"(?<=[.!?])\s+", text.replace("\n", " ")):
            words = sentence.split()
            if len(words) in WORDS and sentence[0].isupper():
                sentences.append(words)
    rng.shuffle(sentences)
    for words in sentences:
        begin, end = sorted(rng.sample(range(1, len(words)), 2))
        parts = words[:begin], words[begin:end], words[end:]
        names = ("prefix", "middle", "suffix")
        yield dict(zip(names, map(" ".join, parts), strict=True))


if __name__ == "__main__":
    with gzip.open(sys.argv[1], "rt", encoding="utf-8") as file:
        for row in cut_sentences(json.loads(line)["text"] for line in file):
            print(json.dumps(row))
