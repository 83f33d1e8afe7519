"""The two sides of an encoder-decoder: tokens read, tokens written and their score."""

# B batch, R tokens to choose from, L encoder length, T decoder length

from typing import Any

import numpy as np

from research.batch import ArraySpec, VocabInfo, input_group, input_specs, scored_specs
from research.objectives.inputs import input_format
from research.objectives.losses.cross_entropy import Term, cross_entropy


def specs(length: int, target: int) -> dict[str, ArraySpec]:
    """Specs of an encoder of `length` places and a decoder of `target`, all scored."""
    return (
        input_specs(length, "encoder_")
        | input_specs(target, "decoder_")
        | scored_specs(target, gathered=False)
    )


def pack(
    token: np.ndarray,
    kept: np.ndarray,
    some: np.ndarray,
    vocab: VocabInfo,
    width: int,
    first: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The kept [B, R] of the tokens [B, R] in order, and eos after them.

    Args:
      some: [B] bool, rows that hold any text; the others stay empty.
      first: a token that stands before them, if any.

    Returns:
      token [B, width] int32, and the number of tokens of each row [B].
    """
    begin = int(first is not None)
    count = begin + kept.sum(axis=1)
    side = np.full((len(token), width), vocab.pad_id, np.int32)
    place = np.arange(width)
    side[(place >= begin) & (place < count[:, None])] = token[kept]
    row = np.flatnonzero(some)
    if first is not None:
        side[row, 0] = first
    side[row, count[row]] = vocab.eos_id
    return side, np.where(some, count + 1, 0)


def batch(
    encoder: tuple[np.ndarray, np.ndarray],
    target: tuple[np.ndarray, np.ndarray],
    vocab: VocabInfo,
    start: int,
) -> dict[str, np.ndarray]:
    """A batch of two packed sides; the decoder reads `start`, then its targets."""
    token, count = target
    weight = np.arange(token.shape[1]) < count[:, None]
    before = np.full_like(token, start)
    before[:, 1:] = token[:, :-1]
    return (
        input_format.full(*encoder, "encoder_")
        | input_format.causal(np.where(weight, before, vocab.pad_id), count, "decoder_")
        | {"target": token, "weight": weight.astype(np.float32)}
    )


def recovered(name: str, net: Any, batch: dict, z: float = 0.0) -> dict[str, Term]:
    """Terms of the decoder's targets: `name`, and accuracy (not differentiated).

    z: of the cross-entropy, see `losses.cross_entropy`.
    """
    memory = net.encode(input_group(batch, "encoder_"))
    readout = net.readout(net.states(input_group(batch, "decoder_"), memory))
    target, weight = batch["target"], batch["weight"]
    term, correct = cross_entropy(readout, target, weight, z=z)
    return {name: term, "accuracy": Term(correct, term.weight, 0.0)}
