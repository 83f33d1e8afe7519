"""Classification of the relation of two spans of text: labels, losses and heads."""

# B batch, D width, N classes

from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from research import networks
from research.contract.batch import (
    NEXT,
    NONADJACENT,
    OTHER_DOCUMENT,
    SENTENCE,
    ArraySpec,
    Batch,
    Example,
)
from research.data import counter_rng
from research.data.rows import TextSpec, pair
from research.objectives.losses.cross_entropy import Term, with_accuracy

NUM_CLASSES = {"nsp": 2, "sop": 2, "sop_released": 2, "structural": 3, "distance": 3}
"""The number of classes of each task.

nsp           0: the second span follows the first, 1: it is from another document
              (Devlin et al. 2019).
sop           0: original order, 1: swapped (Lan et al. 2020). A pair from two
              documents, made if only one sentence was left, has no label.
sop_released  the same, but such a pair counts as swapped (google-research/albert:
              nsp leaks into sop).
structural    0: the second span follows the first, 1: it precedes it, 2: it is from
              another document (Wang et al. 2020, StructBERT).
distance      0: adjacent spans, 1: nonadjacent spans of one document, 2: spans of two
              documents (Sun et al. 2020, ERNIE 2.0).
"""

PAIR_FORMATS = {"segment_pair": "pair", "sentence_pair": "sentence_pair"}
"""Format of two spans -> its unit of text."""

MIN_LENGTH = 5
"""Tokens of the shortest row of two spans: three specials and a token of each span."""

_OTHER_DOCUMENT_RATE = {
    "nsp": 1 / 2,
    "sop": 0.0,
    "sop_released": 0.0,
    "structural": 1 / 3,
    "distance": 1 / 3,
}
_NONADJACENT_RATE = {"distance": 1 / 3}


class PairLabels(NamedTuple):
    """The label of each row, and which rows are swapped."""

    swapped: np.ndarray  # [B] bool: the second span comes before the first
    label: np.ndarray  # [B] int32
    label_weight: np.ndarray  # [B] float32; 0: no label


def text_spec(task: str, format: str, length: int, short_rate: float) -> TextSpec:
    """The pairs that a task needs, with room for three specials.

    Args:
      task: one of NUM_CLASSES, or "none" for pairs as in nsp (published ablation).
    """
    spec = TextSpec(
        PAIR_FORMATS[format],
        length - 3,
        other_document_rate=_OTHER_DOCUMENT_RATE.get(task, _OTHER_DOCUMENT_RATE["nsp"]),
        nonadjacent_rate=_NONADJACENT_RATE.get(task, 0.0),
    )
    is_single = cast(pair.Unit, spec).single
    return spec if is_single else spec.replace(short_rate=short_rate)


def label_specs() -> dict[str, ArraySpec]:
    """Specs of label and label_weight."""
    return {"label": ArraySpec(()), "label_weight": ArraySpec((), np.float32)}


def make_labels(task: str, example: Example, key: np.ndarray) -> PairLabels:
    """Labels of a task, one of NUM_CLASSES, for each pair.

    sop and structural swap half of the adjacent pairs. Rows of one span have no label.
    """
    has_label = (
        (example.first_length > 0)
        & (example.first_length < example.length)
        & (example.label >= 0)
    )
    two_documents = has_label & (example.label == OTHER_DOCUMENT)
    adjacent = has_label & (example.label == NEXT)
    swapped = np.zeros(len(key), bool)
    if task in ("sop", "sop_released", "structural"):
        swapped = adjacent & (counter_rng.uniform(key, "swap", 1)[:, 0] < 0.5)
    if task == "nsp":
        label = has_label & ~adjacent
    elif task in ("sop", "sop_released"):
        label = swapped | two_documents
        has_label = adjacent | (two_documents & (task == "sop_released"))
    elif task == "structural":
        label = swapped + 2 * two_documents
        has_label = adjacent | two_documents
    else:
        label = (has_label & (example.label == NONADJACENT)) + 2 * two_documents
    label = np.where(has_label, label, 0).astype(np.int32)
    return PairLabels(swapped, label, has_label.astype(np.float32))


def fill_segments(example: Example, key: np.ndarray, length: int) -> Example:
    """ELECTRA's two segments, from the sentences of each row of "halves".

    As in google-research/electra, build_pretraining_dataset.py, ExampleBuilder: the
    first segment takes the first sentence, then each sentence with which it stays below
    `first_length` tokens, even after one that it did not take, and in half of the rows
    the first sentence that exceeds this. The second segment takes the others and is
    truncated so that both have `length` tokens, including three specials. Rows of one
    span have only the first segment.

    Returns:
      The example with the first segment before the second, and their lengths.
    """
    num_raw = example.length.astype(np.int64)
    position = np.arange(example.token.shape[1])
    inside = position < num_raw[:, None]
    starts = inside & ((example.flags & SENTENCE) > 0)
    starts[:, 0] = inside[:, 0]
    sentence = np.cumsum(starts, axis=1) - 1
    count = starts.sum(axis=1)
    most = count.max(initial=0) + 1
    index = (np.arange(len(count))[:, None] * most + sentence)[inside]
    size = np.bincount(index, minlength=len(count) * most).reshape(-1, most)

    goal = np.where(example.first_length < num_raw, example.first_length, num_raw + 1)
    exceeds = counter_rng.uniform(key, "exceeds", 1)[:, 0] < 0.5
    in_first = np.zeros(size.shape, bool)
    first, second = np.zeros((2, len(count)), np.int64)
    for number, tokens in enumerate(size.T):
        taken = (first == 0) | (first + tokens < goal)
        taken |= (second == 0) & (first < goal) & exceeds
        in_first[:, number] = taken
        first += np.where(taken, tokens, 0)
        second += np.where(taken, 0, tokens)

    is_later = ~np.take_along_axis(in_first, sentence, axis=1) | ~inside
    order = np.argsort(is_later.view(np.int8), axis=1, kind="stable")
    first = np.minimum(first, length - 2)
    total = first + np.clip(length - 3 - first, 0, second)
    return example._replace(
        token=np.take_along_axis(example.token, order, axis=1),
        flags=np.take_along_axis(example.flags, order, axis=1),
        first_length=first.astype(np.int32),
        length=total.astype(np.int32),
    )


def label_terms(name: str, logits_BN: jax.Array, batch: Batch) -> dict[str, Term]:
    """Terms `name`, the cross-entropy of labels, and "`name`_accuracy" (a metric).

    Args:
      logits_BN: float32.
      batch: has label and label_weight [B].
    """
    label, weight = batch["label"], batch["label_weight"]
    log_p = jax.nn.log_softmax(logits_BN)
    loss = -jnp.take_along_axis(log_p, label[:, None], axis=1)[:, 0]
    correct = jnp.sum(weight * (jnp.argmax(logits_BN, axis=1) == label))
    return with_accuracy(name, Term(jnp.sum(weight * loss), jnp.sum(weight)), correct)


def pooled_head(name: str, num_classes: int) -> dict[str, Any]:
    """A classifier named `name`: BERT's pooler (dense, tanh), then a dense layer."""
    return {name: networks.HeadSpec(num_classes, "tanh")}
