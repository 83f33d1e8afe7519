"""How two spans of text are related, as a question with a few answers."""

# B batch, D width, N answers

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from research import models
from research.batch import (
    NEXT,
    NONADJACENT,
    OTHER_DOCUMENT,
    ArraySpec,
    Example,
    TextSpec,
)
from research.data import counter_rng
from research.objectives.losses.cross_entropy import Term

ANSWERS = {"nsp": 2, "sop": 2, "sop_released": 2, "structural": 3, "distance": 3}
"""How many answers a question has.

nsp           0: the second span follows the first, 1: it is of another document
              (Devlin et al. 2019).
sop           0: as in the text, 1: swapped (Lan et al. 2020). A pair of two documents,
              read where there was but one sentence left, has no answer.
sop_released  the same, but such a pair counts as swapped (google-research/albert, a
              leak of nsp into sop).
structural    0: the second span follows the first, 1: it comes before it, 2: it is of
              another document (Wang et al. 2020, StructBERT).
distance      0: the spans are neighbours, 1: of one document, but not neighbours, 2:
              of two documents (Sun et al. 2020, ERNIE 2.0).
"""

UNITS = {"segment_pair": "pair", "sentence_pair": "sentence_pair"}
"""Formats of two spans, and the unit of text that each reads."""

_OTHER = {
    "nsp": 1 / 2,
    "sop": 0.0,
    "sop_released": 0.0,
    "structural": 1 / 3,
    "distance": 1 / 3,
}
_FAR = {"distance": 1 / 3}


class Question(NamedTuple):
    """What is asked about each row."""

    swapped: np.ndarray  # [B] bool: the second span is shown before the first
    label: np.ndarray  # [B] int32
    label_weight: np.ndarray  # [B] float32, 0: there is no answer


def text_spec(relation: str, format: str, length: int, short: float) -> TextSpec:
    """Pairs as the question needs them, which leave room for three specials.

    relation: one of ANSWERS, or "none": pairs as for nsp, the published ablation.
    """
    unit = UNITS[format]
    return TextSpec(
        unit,
        length - 3,
        other_document_rate=_OTHER.get(relation, _OTHER["nsp"]),
        nonadjacent_rate=_FAR.get(relation, 0.0),
        short_rate=short if unit == "pair" else 0.0,
    )


def specs() -> dict[str, ArraySpec]:
    """Of the answers' arrays."""
    return {"label": ArraySpec(()), "label_weight": ArraySpec((), np.float32)}


def ask(relation: str, example: Example, key: np.ndarray) -> Question:
    """The question of a relation, one of ANSWERS, about each pair.

    sop and structural swap half of the neighbours. Rows of one span have no answer.
    """
    has = (
        (example.first_length > 0)
        & (example.first_length < example.length)
        & (example.label >= 0)
    )
    apart = has & (example.label == OTHER_DOCUMENT)
    adjacent = has & (example.label == NEXT)
    swapped = np.zeros(len(key), bool)
    if relation in ("sop", "sop_released", "structural"):
        swapped = adjacent & (counter_rng.uniform(key, "swap", 1)[:, 0] < 0.5)
    if relation == "nsp":
        label = has & ~adjacent
    elif relation in ("sop", "sop_released"):
        label = swapped | apart
        has = adjacent | (apart & (relation == "sop_released"))
    elif relation == "structural":
        label = swapped + 2 * apart
        has = adjacent | apart
    else:
        label = (has & (example.label == NONADJACENT)) + 2 * apart
    label = np.where(has, label, 0).astype(np.int32)
    return Question(swapped, label, has.astype(np.float32))


def score(name: str, logits_BN: jax.Array, batch: dict) -> dict[str, Term]:
    """Terms of the batch's labels: `name`, and its accuracy (not trained on).

    logits_BN: float32. batch: has label, label_weight [B].
    """
    label, weight = batch["label"], batch["label_weight"]
    log_p = jax.nn.log_softmax(logits_BN)
    loss = -jnp.take_along_axis(log_p, label[:, None], axis=1)[:, 0]
    right = weight * (jnp.argmax(logits_BN, axis=1) == label)
    total = jnp.sum(weight)
    return {
        name: Term(jnp.sum(weight * loss), total),
        f"{name}_accuracy": Term(jnp.sum(right), total, 0.0),
    }


def heads(name: str, size: int) -> dict[str, Any]:
    """The network's head for a question: BERT's pooler and a layer of its answers."""
    return {name: models.HeadSpec(size, "tanh")}
