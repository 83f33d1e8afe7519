"""Heads of tasks, by the values of `objective.head`."""

from collections.abc import Collection
from typing import Any, NamedTuple

from research import networks
from research.objectives.tasks.spans import Independent, Joint
from research.objectives.tasks.tags import CRF, Softmax

TEXT, WORDS, SPANS = "text", "words", "spans"
"""What a head reads: one state of a text, those of words, or those of spans' ends."""
ALL = (TEXT, WORDS, SPANS)


class TaskHead(NamedTuple):
    """The meaning of a value of `head`."""

    line: str  # what it is, for users
    layer: str  # the layer before the last: its activation, and a norm; none: no layer
    reads: tuple[str, ...] = (TEXT,)  # what it can read
    standardize: bool = False  # see `networks.HeadSpec`
    unexported: str = ""  # why Hugging Face has no class for it; "": it has one
    tags: Softmax = Softmax()  # from words
    spans: Independent = Independent()  # from spans


HEADS = {
    "tanh": TaskHead(
        "a dense layer with tanh, and the last layer (BERT, RoBERTa, ALBERT, XLNet, "
        "BART)",
        "tanh",
    ),
    "linear": TaskHead("the last layer alone (GPT, ELECTRA)", "none", ALL),
    "crf": TaskHead(
        "a linear-chain CRF over the words (Lample et al. 2016)",
        "none",
        (WORDS,),
        unexported="its taggers choose each tag alone",
        tags=CRF(),
    ),
    "joint": TaskHead(
        "the end is predicted from the start, and answerability by a layer of its own "
        "(XLNet, ELECTRA)",
        "none",
        (SPANS,),
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
        ALL,
    ),
    "standardized": TaskHead(
        "as gelu, between LayerNorms without parameters (BabyLM)",
        "gelu",
        standardize=True,
        unexported="its heads have no such norms",
    ),
}
"""The values of `objective.head` of tasks."""


def heads_of(reads: str) -> dict[str, TaskHead]:
    """The values of `head` of tasks with these `head_reads`."""
    return {name: head for name, head in HEADS.items() if reads in head.reads}


def with_other_layers(layers: Collection[str]) -> str:
    """The heads of a text whose layer is none of these, in words."""
    found = heads_of(TEXT).items()
    return " or ".join(name for name, head in found if head.layer not in layers)


def head_spec(head: str, size: int, **more: Any) -> networks.HeadSpec:
    """The layers of a task's head, one of HEADS, with `size` values.

    With a norm the last layer has a bias even if model.bias is False, as in ModernBERT
    (transformers' ModernBertPredictionHead, then a classifier).
    """
    activation, _, norm = HEADS[head].layer.partition("_")
    bias = {"norm": True, "bias": True} if norm else {}
    options = {"dropout": True, "standardize": HEADS[head].standardize} | bias | more
    return networks.HeadSpec(size, activation, **options)
