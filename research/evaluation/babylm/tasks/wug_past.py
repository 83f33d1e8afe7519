"""Past tenses of invented verbs (Weissweiler et al. 2023); rules of 2025."""

from research.evaluation.babylm.tasks import wug_adj


class Task(wug_adj.Task):
    official, full, fast = "wug_past", "wug_past_tense", "wug_past_tense"
