"""Arrays and loss of encoder-decoders: encoder input, decoder input, target."""

# B batch, R tokens to choose from, L encoder length, T decoder length

from collections.abc import Sequence
from typing import Any

import numpy as np

from research.contract.batch import (
    ArraySpec,
    Batch,
    VocabInfo,
    input_group,
    input_specs,
    scored_specs,
)
from research.networks import BoundNetwork
from research.objectives.layout import input_format
from research.objectives.layout.prompt import Prompt, pad_rows
from research.objectives.losses.cross_entropy import Term, cross_entropy


def batch_spec(length: int, target_length: int) -> dict[str, ArraySpec]:
    """Specs of an encoder of L positions and a decoder of T scored positions."""
    return (
        input_specs(length, "encoder_")
        | input_specs(target_length, "decoder_")
        | scored_specs(target_length, gathered=False)
    )


def pack(
    token: np.ndarray,
    kept: np.ndarray,
    nonempty: np.ndarray,
    vocab: VocabInfo,
    width: int,
    first_id: int | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The kept tokens of each row in order, followed by eos.

    Args:
      token: [B, R].
      kept: [B, R] bool.
      nonempty: [B] bool, rows with text; the others stay empty.
      first_id: a token that precedes them; None: no token.

    Returns:
      token [B, width] int32, and the number of tokens of each row [B].
    """
    begin = int(first_id is not None)
    count = begin + kept.sum(axis=1)
    packed = np.full((len(token), width), vocab.pad_id, np.int32)
    index = np.arange(width)
    packed[(index >= begin) & (index < count[:, None])] = token[kept]
    row = np.flatnonzero(nonempty)
    if first_id is not None:
        packed[row, 0] = first_id
    packed[row, count[row]] = vocab.eos_id
    return packed, np.where(nonempty, count + 1, 0)


def make_batch(
    encoder: tuple[np.ndarray, np.ndarray],
    target: tuple[np.ndarray, np.ndarray],
    vocab: VocabInfo,
    decoder_start_id: int,
) -> dict[str, np.ndarray]:
    """The batch of a packed encoder input and a packed target.

    The decoder reads `decoder_start_id` and then the target, shifted by one.

    Args:
      encoder, target: as `pack` returns them.
    """
    token, count = target
    weight = np.arange(token.shape[1]) < count[:, None]
    before = np.full_like(token, decoder_start_id)
    before[:, 1:] = token[:, :-1]
    return (
        input_format.full_input(*encoder, "encoder_")
        | input_format.causal_input(
            np.where(weight, before, vocab.pad_id), count, "decoder_"
        )
        | {"target": token, "weight": weight.astype(np.float32)}
    )


def prompt(
    rows: Sequence[Sequence[int]], decoder_start: Sequence[int], vocab: VocabInfo
) -> Prompt:
    """The encoder's rows and the tokens that the decoder reads first."""
    starts = pad_rows([decoder_start] * len(rows), vocab.pad_id)
    return Prompt(
        input_format.causal_input(*starts),
        input_format.full_input(*pad_rows(rows, vocab.pad_id)),
    )


def encode(net: BoundNetwork, batch: Batch, prefix: str = "") -> Any:
    """The encoder's output; a decoder attends to the positions of its own segment.

    If the batch has `cross_segment` [B, L], it replaces the encoder's segments.
    """
    encoded = net.encode(input_group(batch, prefix))
    if "cross_segment" in batch:
        encoded = encoded._replace(segment=batch["cross_segment"])
    return encoded


def loss_terms(
    name: str, net: BoundNetwork, batch: Batch, **factors: float
) -> dict[str, Term]:
    """The `target_terms` of the decoder."""
    encoded = encode(net, batch, "encoder_")
    readout = net.readout(net.states(input_group(batch, "decoder_"), encoded=encoded))
    return target_terms(name, readout, batch, **factors)


def target_terms(
    name: str,
    readout: Any,
    batch: Batch,
    *,
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> dict[str, Term]:
    """Terms of a batch's targets: `name`, and accuracy (not differentiated).

    Args:
      label_smoothing, z_loss: see `smoothing` and `z_loss` of `losses.cross_entropy`.
    """
    target, weight = batch["target"], batch["weight"]
    term, correct = cross_entropy(
        readout, target, weight, smoothing=label_smoothing, z_loss=z_loss
    )
    return {name: term, "accuracy": Term(correct, term.weight, 0.0)}
