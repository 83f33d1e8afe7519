"""Names of the metrics of predictions."""

ROUGE = ("rouge1", "rouge2", "rougeL")
HIGHER_IS_BETTER = {
    "class": ("accuracy", "f1", "matthews"),
    "set": ("f1_micro", "f1_macro", "exact"),
    "number": ("pearson", "spearman"),
    "choice": ("accuracy",),
    "tags": ("word_accuracy", "precision", "recall", "f1"),
    "span": ("exact_match", "f1"),
    "text": ("exact_match", "bleu", "chrf", *ROUGE),
}
"""By what an objective predicts (`research.evaluation.predictions`): its metrics, but
for errors."""
