"""What is scored, and metrics that are not sums over examples, each by a library."""

import math
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from research.metrics import ROUGE

CHUNK_PREFIXES = ("B-", "I-", "E-", "S-")


class Item(NamedTuple):
    """One example: what was predicted, and what is right, None if that is unknown."""

    id: str
    prediction: Any
    gold: Any
    score: float | None  # 1 for right and 0 for wrong, or a part of that


class Scores(NamedTuple):
    """The items of an evaluation, in the order of the text, and the metrics of all."""

    items: list[Item]
    metrics: dict[str, float]
    margins: Mapping[str, float] = MappingProxyType({})  # of metrics of items: half the
    # width of their 95 % intervals over items, where they were asked for


def of_classes(
    predictions: Sequence[str], golds: Sequence[str], classes: Sequence[str]
) -> dict[str, float]:
    """accuracy, f1 and matthews (scikit-learn).

    f1 is that of the second class of two (GLUE's MRPC and QQP), else the macro average.
    """
    from sklearn import metrics

    average = {"average": "macro", "labels": list(classes)}
    if len(classes) == 2:
        average = {"average": "binary", "pos_label": classes[1]}
    return {
        "accuracy": float(metrics.accuracy_score(golds, predictions)),
        "f1": float(metrics.f1_score(golds, predictions, zero_division=0, **average)),
        "matthews": float(metrics.matthews_corrcoef(golds, predictions)),
    }


def of_sets(
    predictions: Sequence[set[str]], golds: Sequence[set[str]], classes: Sequence[str]
) -> dict[str, float]:
    """f1_micro, f1_macro, and exact: the fraction of sets that are right."""
    from sklearn import metrics

    both = [
        np.array([[name in found for name in classes] for found in sets])
        for sets in (golds, predictions)
    ]
    scores = {
        f"f1_{average}": float(
            metrics.f1_score(*both, average=average, zero_division=0)
        )
        for average in ("micro", "macro")
    }
    return scores | {"exact": float(metrics.accuracy_score(*both))}


def of_numbers(
    predictions: Sequence[float], golds: Sequence[float]
) -> dict[str, float]:
    """pearson, spearman (SciPy) and mean_squared_error.

    A correlation with a constant is not defined and left out.
    """
    from scipy import stats

    found, right = np.array(predictions, float), np.array(golds, float)
    scores = {"mean_squared_error": float(np.mean((found - right) ** 2))}
    if len(found) < 2:
        return scores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        scores["pearson"] = float(stats.pearsonr(found, right).statistic)
        scores["spearman"] = float(stats.spearmanr(found, right).statistic)
    return {name: value for name, value in scores.items() if math.isfinite(value)}


def of_tags(
    predictions: Sequence[Sequence[str]], golds: Sequence[Sequence[str]]
) -> dict[str, float]:
    """word_accuracy; of chunks (tags with B-, I-, ...) precision, recall and f1.

    Chunks are counted as conlleval counts them (seqeval's default mode), in all texts
    together.
    """
    pairs = [
        (found, right)
        for texts in zip(predictions, golds, strict=True)
        for found, right in zip(*texts, strict=True)
    ]
    scores = {"word_accuracy": sum(a == b for a, b in pairs) / len(pairs)}
    if not any(right.startswith(CHUNK_PREFIXES) for _, right in pairs):
        return scores
    from seqeval import metrics

    both = [list(map(list, golds)), list(map(list, predictions))]
    return scores | {
        name: float(getattr(metrics, f"{name}_score")(*both, zero_division=0))
        for name in ("precision", "recall", "f1")
    }


def of_texts(predictions: Sequence[str], golds: Sequence[str]) -> dict[str, float]:
    """exact_match, ROUGE's F (rouge-score, stemmed), and bleu and chrf of all texts.

    bleu and chrf are sacreBLEU's, between 0 and 100, with its default tokenizer "13a"
    (of text with spaces between words); the others are fractions. ROUGE counts words of
    Latin letters and digits alone.
    """
    import sacrebleu
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(ROUGE, use_stemmer=True)
    rouge = [scorer.score(*pair) for pair in zip(golds, predictions, strict=True)]
    right = [found == gold for found, gold in zip(predictions, golds, strict=True)]
    return {
        "exact_match": float(np.mean(right)),
        "bleu": float(sacrebleu.corpus_bleu(predictions, [golds]).score),
        "chrf": float(sacrebleu.corpus_chrf(predictions, [golds]).score),
    } | {
        name: float(np.mean([each[name].fmeasure for each in rouge])) for name in ROUGE
    }


def chrf(prediction: str, gold: str) -> float:
    """chrF (Popovic 2015) of one text, between 0 and 1 (sacreBLEU)."""
    import sacrebleu

    return sacrebleu.sentence_chrf(prediction, [gold]).score / 100
