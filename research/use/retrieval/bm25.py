"""BM25: scores of texts for a question, by the terms that they share."""

# N texts

import logging
import math
from collections.abc import Sequence

import numpy as np

from research.contract.errors import missing_package
from research.data.progress import MANY, progress
from research.use.retrieval.passages import terms

K1, B = 1.5, 0.75
"""How soon more of a term add little, and how much longer texts are held down."""


class BM25:
    """Lucene's BM25 (Robertson and Zaragoza 2009; Kamphuis et al. 2020).

    See section 3 of the former and table 1 of the latter; it is computed by bm25s. A
    term that is in n of N texts counts log(1 + (N - n + .5) / (n + .5)), times f / (f +
    K1 (1 - B + B length / mean length)) in a text where it occurs f times.

    Raises:
      UserError: bm25s is not installed.
    """

    def __init__(self, texts: Sequence[str]):
        try:
            import bm25s
        except ImportError as error:
            raise missing_package("a search of documents", "bm25s") from error
        logging.getLogger("bm25s").setLevel(logging.WARNING)  # it sets DEBUG itself
        self.num_texts, self._index = len(texts), None
        found = []
        with progress("words", len(texts), silent=len(texts) < MANY) as report:
            for number, text in enumerate(texts, 1):
                found.append(terms(text))
                report(number, f"{number} of {len(texts)} passages")
        if any(found):
            self._index = bm25s.BM25(method="lucene", k1=K1, b=B)
            self._index.index(found, show_progress=False)

    def _ids(self, found: Sequence[str]) -> list[int]:
        """The numbers of the terms that any text has."""
        known = self._index.vocab_dict if self._index else {}
        return [known[term] for term in found if term in known]

    def idf(self, term: str) -> float:
        """The weight of a term; the largest one if no text has the term."""
        count = 0
        for number in self._ids([term]):
            assert self._index is not None
            first, last = self._index.scores["indptr"][number : number + 2]
            count = int(last - first)
        return math.log(1 + (self.num_texts - count + 0.5) / (count + 0.5))

    def scores(self, question: str) -> np.ndarray:
        """[N] float32: 0 where a text has no term of the question."""
        ids = self._ids(terms(question))
        if self._index and ids:
            return self._index.get_scores_from_ids(ids)
        return np.zeros(self.num_texts, np.float32)
