"""Passages are ranked by the formulas of BM25, of cosines, and of their fusion."""

import math

import numpy as np
import pytest

from research.contract.errors import UserError
from research.data import progress
from research.use.retrieval.bm25 import BM25
from research.use.retrieval.passages import Passage, terms
from research.use.retrieval.search import fuse, make_index

TEXTS = ["the old river", "the river, the river and the stone", "a stone", "学校へ行く"]


def letters(texts):
    """Vectors of length 1: how often letters occur."""
    found = np.array(
        [[text.count(c) for c in "abcdeiortsv学"] for text in texts], float
    )
    norm = np.linalg.norm(found, axis=1, keepdims=True)
    return (found / np.maximum(norm, 1e-9)).astype(np.float32)


def passages():
    return [Passage(text, f"d{n}", 0, len(text)) for n, text in enumerate(TEXTS)]


@pytest.mark.parametrize("question", ["river stone", "the the river", "学校", "none"])
def test_scores_are_those_of_the_definition(question):
    """Robertson and Zaragoza's sum, term by term, with k1 = 1.5 and b = .75."""
    lengths = [len(terms(text)) for text in TEXTS]
    mean = sum(lengths) / len(TEXTS)
    expected = []
    for text, length in zip(TEXTS, lengths, strict=True):
        score = 0.0
        for term in terms(question):
            count = sum(term in terms(other) for other in TEXTS)
            idf = math.log(1 + (len(TEXTS) - count + 0.5) / (count + 0.5))
            often = terms(text).count(term)
            score += idf * often / (often + 1.5 * (1 - 0.75 + 0.75 * length / mean))
        expected.append(score)
    np.testing.assert_allclose(BM25(TEXTS).scores(question), expected, rtol=1e-5)


def test_many_texts_show_how_many_are_done(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LOG_INTERVAL_S", 0.0)
    BM25(["stone"] * progress.MANY)
    assert f"words: 100 %, 1000 of {progress.MANY} pass" in capsys.readouterr().err
    BM25(["stone"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("texts", [[], ["", "."]])
def test_texts_without_a_term_have_no_scores(texts):
    index = BM25(texts)
    np.testing.assert_array_equal(index.scores("a a"), np.zeros(len(texts)))
    assert index.idf("a") == math.log(1 + (len(texts) + 0.5) / 0.5)


def test_idf_is_that_of_the_definition():
    index = BM25(TEXTS)
    assert index.idf("river") == math.log(1 + 2.5 / 2.5)
    assert index.idf("stone") == index.idf("the") != index.idf("old")
    assert index.idf("none") == math.log(1 + 4.5 / 0.5)


def test_fusion_sums_reciprocal_ranks():
    fused = fuse([[(7, 9.0), (3, 8.0)], [(3, 0.5), (5, 0.4)]])
    assert [number for number, _ in fused] == [3, 7, 5]
    assert [score for _, score in fused] == [1 / 62 + 1 / 61, 1 / 61, 1 / 62]


def test_methods_rank_by_their_own_scores():
    index = make_index(passages(), letters)
    question = "old river"
    words = index.search(question, 4, "words")
    assert [hit.passage.document for hit in words] == ["d0", "d1"]  # no word of others
    vectors = index.search(question, 4, "vectors")
    cosines = letters(TEXTS) @ letters([question])[0]
    np.testing.assert_allclose(
        [hit.score for hit in vectors], sorted(cosines, reverse=True), rtol=1e-6
    )
    ranks = [[hit.passage.document for hit in hits] for hits in (words, vectors)]
    best = {
        name: sum(1 / (61 + rank.index(name)) for rank in ranks if name in rank)
        for name in ranks[1]
    }
    fused = index.search(question, 4)
    assert [hit.passage.document for hit in fused] == sorted(
        best, key=lambda n: -best[n]
    )
    assert len(index.search(question, 1)) == 1


def test_what_cannot_be_searched_is_refused():
    index = make_index(passages())
    assert index.search("stone", 1)[0].passage.document == "d2"
    assert index.search("nothing", 3) == []
    with pytest.raises(UserError, match="method vectors needs vectors"):
        index.search("stone", 1, "vectors")
    with pytest.raises(UserError, match="did you mean vectors"):
        index.search("stone", 1, "vector")
