"""BM25: scores of texts for a question, by the terms that they share."""

# N texts, T terms

import collections
import math
from collections.abc import Sequence

import numpy as np

from research.retrieval.passages import terms

K1, B = 1.5, 0.75
"""How soon more of a term add little, and how much longer texts are held down."""


class BM25:
    """Lucene's variant (Robertson and Zaragoza 2009, section 3; Kamphuis et al. 2020,
    table 1): a term that is in n of N texts counts log(1 + (N - n + .5) / (n + .5)),
    times f / (f + K1 (1 - B + B length / mean length)) where it occurs f times.
    """

    def __init__(self, texts: Sequence[str]):
        counts = [collections.Counter(terms(text)) for text in texts]
        length_N = np.array([count.total() for count in counts], np.float64)
        mean = max(1.0, length_N.mean()) if len(texts) else 1.0
        norm_N = K1 * (1 - B + B * length_N / mean)
        where: dict[str, list[int]] = collections.defaultdict(list)
        often: dict[str, list[int]] = collections.defaultdict(list)
        for number, count in enumerate(counts):
            for term, frequency in count.items():
                where[term].append(number)
                often[term].append(frequency)
        self.num_texts = len(texts)
        self._postings: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        for term, numbers in where.items():
            text = np.array(numbers, np.int32)
            frequency = np.array(often[term], np.float64)
            weight = self._idf(len(text)) * frequency / (frequency + norm_N[text])
            self._postings[term] = text, weight.astype(np.float32)

    def _idf(self, count: int) -> float:
        return math.log(1 + (self.num_texts - count + 0.5) / (count + 0.5))

    def idf(self, term: str) -> float:
        """The weight of a term; of one that no text has, the largest."""
        texts, _ = self._postings.get(term, ((), ()))
        return self._idf(len(texts))

    def scores(self, question: str) -> np.ndarray:
        """[N] float32: 0 where a text has no term of the question."""
        scores_N = np.zeros(self.num_texts, np.float32)
        for term in terms(question):
            if term in self._postings:
                text, weight = self._postings[term]
                scores_N[text] += weight
        return scores_N
