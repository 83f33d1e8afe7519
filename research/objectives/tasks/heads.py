"""Heads of tasks, by the values of `objective.head`."""

from typing import Any, NamedTuple

from research import networks
from research.objectives.tasks.spans import Independent, Joint
from research.objectives.tasks.tags import CRF, Softmax

POOLED_TASKS = ("sequence_classification", "multiple_choice")
"""Tasks whose head reads one state of a row."""
ALL_TASKS = (*POOLED_TASKS, "token_classification", "question_answering")


class TaskHead(NamedTuple):
    """The meaning of a value of `head`."""

    line: str  # what it is, for users
    layer: str  # the layer before the last: its activation, and a norm; none: no layer
    tasks: tuple[str, ...] = POOLED_TASKS  # tasks that can have it
    standardize: bool = False  # see `networks.HeadSpec`
    unexported: str = ""  # why Hugging Face has no class for it; "": it has one
    tags: Softmax = Softmax()  # for token_classification
    spans: Independent = Independent()  # for question_answering


HEADS = {
    "tanh": TaskHead(
        "a dense layer with tanh, and the last layer (BERT, RoBERTa, ALBERT, XLNet, "
        "BART)",
        "tanh",
    ),
    "linear": TaskHead("the last layer alone (GPT, ELECTRA)", "none", ALL_TASKS),
    "crf": TaskHead(
        "a linear-chain CRF over the words (Lample et al. 2016)",
        "none",
        ("token_classification",),
        unexported="its taggers choose each tag alone",
        tags=CRF(),
    ),
    "joint": TaskHead(
        "the end is predicted from the start, and answerability by a layer of its own "
        "(XLNet, ELECTRA)",
        "none",
        ("question_answering",),
        spans=Joint(),
    ),
    "gelu": TaskHead(
        "as tanh, but with gelu and a layer of its own (transformers' "
        "ElectraClassificationHead)",
        "gelu",
    ),
    "relu": TaskHead(
        "as gelu, but with relu (transformers' DistilBertForSequenceClassification)",
        "relu",
    ),
    "gelu_norm": TaskHead(
        "a dense layer, gelu and a norm, and the last layer (ModernBERT)",
        "gelu_norm",
        ALL_TASKS,
    ),
    "standardized": TaskHead(
        "as gelu, between LayerNorms without parameters (BabyLM)",
        "gelu",
        standardize=True,
        unexported="its heads have no such norms",
    ),
}
"""The values of `objective.head` of tasks."""


def heads_of(task: str) -> dict[str, TaskHead]:
    """The values of `head` of a task, an objective's name."""
    return {name: head for name, head in HEADS.items() if task in head.tasks}


def head_spec(head: str, size: int, **more: Any) -> networks.HeadSpec:
    """The layers of a task's head, one of HEADS, with `size` values.

    With a norm the last layer has a bias even if model.bias is False, as in ModernBERT
    (transformers' ModernBertPredictionHead, then a classifier).
    """
    activation, _, norm = HEADS[head].layer.partition("_")
    bias = {"norm": True, "bias": True} if norm else {}
    options = {"dropout": True, "standardize": HEADS[head].standardize} | bias | more
    return networks.HeadSpec(size, activation, **options)
