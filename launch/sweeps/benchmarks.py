"""The columns of published tables: a task and its metric, or a mean of tasks.

Tasks have these names in the file of `launch.sweep --tasks`.
"""

from collections.abc import Iterable

PERPLEXITY = "perplexity"
"""Name of the perplexity of a task's targets, which tables show with the metrics."""

COLUMNS = {
    "CoLA": ("CoLA", "matthews"),
    "SST-2": ("SST-2", "accuracy"),
    "MRPC": ("MRPC", "accuracy"),
    "MRPC F1": ("MRPC", "f1"),
    "STS-B": ("STS-B", "pearson"),
    "QQP": ("QQP", "accuracy"),
    "QQP F1": ("QQP", "f1"),
    "TC": ("NER", "f1"),
    "QA F1": ("SQuAD 1.1", "f1"),
    "MNLI": ("MNLI", "accuracy"),
    "MNLI-m": ("MNLI", "accuracy"),
    "MNLI fine-tuned": ("MNLI", "accuracy"),
    "QNLI": ("QNLI", "accuracy"),
    "RTE": ("RTE", "accuracy"),
    "BoolQ": ("BoolQ", "accuracy"),
    "CB": ("CB", "accuracy"),
    "WiC": ("WiC", "accuracy"),
    "RACE": ("RACE", "accuracy"),
    "SQuAD 1.1 F1": ("SQuAD 1.1", "f1"),
    "SQuAD 2.0 F1": ("SQuAD 2.0", "f1"),
    "SQuAD F1": ("SQuAD 1.1", "f1"),
    "SQuAD EM": ("SQuAD 1.1", "exact_match"),
    "NewsQA": ("NewsQA", "f1"),
    "TriviaQA": ("TriviaQA", "f1"),
    "NER fine-tuned": ("NER", "f1"),
    "NER by features": ("NER by features", "f1"),
    "ELI5 ppl": ("ELI5", PERPLEXITY),
    "XSum ppl": ("XSum", PERPLEXITY),
    "ConvAI2 ppl": ("ConvAI2", PERPLEXITY),
    "CNN/DM ppl": ("CNN/DM", PERPLEXITY),
    "POS, frozen": ("POS, frozen", "word_accuracy"),
    "chunks": ("CoNLL-2000", "f1"),
}
"""Column -> task and metric."""

PROBES = ("POS, frozen", "chunks")
"""Columns of scales whose networks learn too little of sentence tasks."""

PROBE_TASKS = tuple(COLUMNS[name][0] for name in PROBES)

KEYS = {
    "POS, frozen": {
        "objective.name": "token_classification",
        "optimizer.frozen": "network",
        "optimizer.learning_rate": 3e-3,
        "model.dropout": 0.0,
    },
    "NER by features": {
        "objective.features": "concat",
        "objective.lstm_layers": 2,
        "optimizer.frozen": "token,embeddings,stack",
        "optimizer.learning_rate": 1e-3,
        "model.dropout": 0.0,
        "model.head_dropout": 0.1,
    },
}
"""Task -> config keys of its fine-tunings.

POS, frozen: one linear layer reads the network's last states.

NER by features: a BiLSTM of two layers reads the last four blocks of the pretrained,
frozen network (Devlin et al. 2019, section 5.3). The paper gives no learning rate; this
one is that of AllenNLP's tagger on ELMo's features (allennlp-models,
training_config/tagging/ner_elmo.jsonnet).
"""

MEANS = {
    "GLUE": ("CoLA", "SST-2", "MRPC", "STS-B", "QQP", "MNLI", "QNLI", "RTE"),
    "SC": ("SST-2", "MNLI", "QQP"),
    "SuperGLUE": ("BoolQ", "CB", "RTE", "WiC"),
}
"""Column -> the columns it is the mean of; for SuperGLUE those with one label."""

AVERAGES = ("average", "mean of tasks")
"""Columns that are the mean of the table's other columns."""

PARTIAL = {
    "GLUE": "eight tasks, a metric each",
    "SuperGLUE": "the tasks that are one label",
}
"""Column -> what it averages, if a paper's mean has more tasks or other metrics: GLUE
includes WNLI in DistilBERT's table, two metrics of MRPC, QQP and STS-B in T5's, and
STS-B's Spearman in ELECTRA's."""


def probes(names: Iterable[str]) -> tuple[str, ...]:
    """The probes, and the perplexities of written texts among a table's columns."""
    return PROBES + tuple(n for n in names if COLUMNS.get(n, ("", ""))[1] == PERPLEXITY)


def columns(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Column of a table that can be run -> the columns it is the mean of.

    The columns that a mean needs come before it.
    """
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        parts = MEANS.get(name, ())
        if name in AVERAGES:
            parts = tuple(other for other in names if other in COLUMNS)
        found |= dict.fromkeys(parts, ())
        if parts or name in COLUMNS:
            found[name] = parts
    return found
