"""ROUGE's F (Lin 2004) of words, pairs of words and common subsequences (rouge-score).

The mean over the texts, of stemmed words of Latin letters and digits alone.
"""

import dataclasses

import numpy as np

from research import metrics
from research.metrics import Value


@dataclasses.dataclass(frozen=True)
class Metric(metrics.Metric):
    kinds = ("text",)
    values = (Value("rouge1"), Value("rouge2"), Value("rougeL"))

    def measure(self, items, labels):
        from rouge_score.rouge_scorer import RougeScorer

        names = [value.name for value in self.values]
        scorer = RougeScorer(names, use_stemmer=True)
        scores = [scorer.score(item.gold, item.prediction) for item in items]
        return {
            name: float(np.mean([each[name].fmeasure for each in scores]))
            for name in names
        }
