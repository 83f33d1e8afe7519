"""Search for passages that a question is about: by words, by vectors, or by both."""

# N passages, D width

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from research.contract.errors import UserError, unknown
from research.use.retrieval.bm25 import BM25
from research.use.retrieval.passages import Passage

METHODS = ("fused", "words", "vectors")
RANK_CONSTANT = 60
"""The k of reciprocal rank fusion (Cormack et al. 2009, section 2)."""
DEPTH = 100
"""Passages of each ranking that are fused."""


class Hit(NamedTuple):
    """A passage that was found."""

    passage: Passage
    score: float  # BM25, cosine, or the sum of reciprocal ranks, depending on method


@dataclasses.dataclass(frozen=True)
class Index:
    """Passages, and how they are found.

    Attributes:
      encode: texts -> vectors [n, D] of length 1; None: passages have no vectors.
      vectors: [N, D] of the passages.
    """

    passages: Sequence[Passage]
    words: BM25
    encode: Callable[[Sequence[str]], np.ndarray] | None = None
    vectors: np.ndarray | None = None

    def search(self, question: str, top_k: int, method: str = "") -> list[Hit]:
        """At most `top_k` passages, best first; by words, only those that share one.

        Args:
          method: one of `METHODS`; "": fused, or words if there are no vectors.

        Raises:
          UserError: the method is unknown, or needs vectors and there are none.
        """
        method = method or ("words" if self.encode is None else "fused")
        if method not in METHODS:
            raise unknown("method", method, METHODS)
        if method != "words" and self.encode is None:
            raise UserError(f"method {method} needs vectors, but passages have none")
        depth = top_k if method != "fused" else max(top_k, DEPTH)
        rankings = []
        if method != "vectors":
            rankings.append(_best(self.words.scores(question), depth, above=0.0))
        if method != "words":
            assert self.encode is not None
            scores_N = self.vectors @ self.encode([question])[0]
            rankings.append(_best(scores_N, depth))
        found = rankings[0] if len(rankings) == 1 else fuse(rankings)
        return [Hit(self.passages[n], score) for n, score in found[:top_k]]


def make_index(
    passages: Sequence[Passage],
    encode: Callable[[Sequence[str]], np.ndarray] | None = None,
) -> Index:
    """The index of passages, with their vectors if `encode` is given."""
    texts = [passage.text for passage in passages]
    vectors = None if encode is None else encode(texts)
    return Index(passages, BM25(texts), encode, vectors)


def _best(
    scores_N: np.ndarray, count: int, above: float = -np.inf
) -> list[tuple[int, float]]:
    """Numbers and scores of the best, best first; ties in their order."""
    best = np.argsort(-scores_N, kind="stable")[:count]
    return [(int(n), float(scores_N[n])) for n in best if scores_N[n] > above]


def fuse(rankings: Sequence[Sequence[tuple[int, float]]]) -> list[tuple[int, float]]:
    """Numbers by the sum of 1 / (RANK_CONSTANT + rank) over rankings, best first."""
    total: dict[int, float] = {}
    for ranking in rankings:
        for rank, (number, _) in enumerate(ranking, 1):
            total[number] = total.get(number, 0.0) + 1 / (RANK_CONSTANT + rank)
    return sorted(total.items(), key=lambda item: (-item[1], item[0]))
