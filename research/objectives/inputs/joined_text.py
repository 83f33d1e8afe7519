"""Input and target of an encoder-decoder as one text, for a network of one stack.

A decoder is a language model of input and target, one after the other; a prefix LM
attends to the whole input and is scored on the target (Raffel et al. 2020, section
3.2.1).
"""

# B batch, L length, K scored positions: those of the target in a prefix LM

from typing import Any

import numpy as np

from research import models
from research.batch import ArraySpec, VocabInfo, input_specs, scored_specs
from research.objectives.inputs import input_format, seq2seq
from research.objectives.losses.cross_entropy import Term

PATTERNS = {"decoder": "causal", "prefix": "general"}
"""Layout of a joined text -> the attention pattern of its rows."""


def batch_spec(length: int, num_target: int, layout: str) -> dict[str, ArraySpec]:
    """Specs of rows of input and target, of `length` tokens in all."""
    if layout == "decoder":
        return input_specs(length) | scored_specs(length, gathered=False)
    return input_specs(length) | scored_specs(num_target)


def make_batch(
    encoder: tuple[np.ndarray, np.ndarray],
    target: tuple[np.ndarray, np.ndarray],
    vocab: VocabInfo,
    length: int,
    layout: str,
) -> dict[str, np.ndarray]:
    """The batch of a packed input and a packed target, which fit in `length`.

    The network reads pad and then the text, shifted by one. In a prefix LM the input's
    last token, at which the target's first one is predicted, is part of the prefix
    (mesh_tensorflow, transformer.py, `input_full_attention`). A decoder is scored on
    input and target, as there without `loss_on_targets_only`.

    Args:
      encoder, target: as `seq2seq.pack` returns them.
    """
    (read, num_read), (written, num_written) = encoder, target
    position = np.arange(length)
    text = np.full((len(read), length), vocab.pad_id, np.int32)
    count = num_read + num_written
    text[position < num_read[:, None]] = read[
        np.arange(read.shape[1]) < num_read[:, None]
    ]
    in_target = (position >= num_read[:, None]) & (position < count[:, None])
    is_written = np.arange(written.shape[1]) < num_written[:, None]
    text[in_target] = written[is_written]
    before = np.full_like(text, vocab.pad_id)
    before[:, 1:] = np.where(position[1:] < count[:, None], text[:, :-1], vocab.pad_id)
    group = input_format.causal_input(before, count)
    if layout == "decoder":
        weight = (position < count[:, None]).astype(np.float32)
        return group | {"target": text, "weight": weight}
    rank = np.maximum(group["rank"] - num_read[:, None], 0).astype(np.int32)
    scored = num_read[:, None] + np.arange(written.shape[1])
    return group | {
        "rank": rank,
        "reach": rank.copy(),
        "scored": np.where(is_written, scored, 0).astype(np.int32),
        "target": written,
        "weight": is_written.astype(np.float32),
    }


def network(options: Any, vocab: VocabInfo, layout: str) -> Any:
    """The stack that reads joined texts."""
    return models.Transformer(options, size=vocab.size, pattern=PATTERNS[layout])


def loss_terms(name: str, net: Any, batch: dict, **factors: float) -> dict[str, Term]:
    """Terms of what is scored, as `seq2seq.target_terms` has them."""
    readout = net.readout(net.states(batch, scored=batch.get("scored")))
    return seq2seq.target_terms(name, readout, batch, **factors)
