"""Inputs and targets of text-to-text objectives, for one stack or two.

An encoder reads the input and a decoder writes the target, or a network of one stack
reads both as one text (Raffel et al. 2020, section 3.2.1): layout decoder is a language
model of input and target; layout prefix attends to the whole input, and only the target
is scored.
"""

# B batch, L length of both as one text, K scored positions (prefix: the target)

from collections.abc import Sequence

import numpy as np

from research import networks
from research.contract.batch import (
    ArraySpec,
    Batch,
    VocabInfo,
    input_specs,
    scored_specs,
)
from research.objectives.layout import input_format, seq2seq
from research.objectives.layout.prompt import Prompt, pad_rows
from research.objectives.layout.specials import Specials
from research.objectives.losses.cross_entropy import Term

PATTERNS = {"encoder_decoder": "full", "decoder": "causal", "prefix": "general"}
"""Layout -> the attention pattern of the stack that reads the input."""

LAYOUTS = tuple(PATTERNS)


def batch_spec(
    length: int, num_target: int, joined_length: int, layout: str
) -> dict[str, ArraySpec]:
    """Specs of inputs of `length` tokens and their targets, or of both as one text."""
    if layout == "encoder_decoder":
        return seq2seq.batch_spec(length, num_target)
    if layout == "decoder":
        return input_specs(joined_length) | scored_specs(joined_length, gathered=False)
    return input_specs(joined_length) | scored_specs(num_target)


def make_batch(
    encoder: tuple[np.ndarray, np.ndarray],
    target: tuple[np.ndarray, np.ndarray],
    vocab: VocabInfo,
    joined_length: int,
    layout: str,
    decoder_start: int,
) -> dict[str, np.ndarray]:
    """The batch of a packed input and a packed target.

    A network of one stack reads pad and then the text, shifted by one. In a prefix LM
    the input's last token, which predicts the target's first, belongs to the prefix
    (mesh_tensorflow, transformer.py, `input_full_attention`). With layout decoder, both
    input and target are scored, as there without `loss_on_targets_only`.

    Args:
      encoder, target: as `seq2seq.pack` returns them.
      joined_length: number of positions for both as one text.
      decoder_start: the first token that the decoder of an encoder-decoder reads.
    """
    if layout == "encoder_decoder":
        return seq2seq.make_batch(encoder, target, vocab, decoder_start)
    (read, num_read), (written, num_written) = encoder, target
    position = np.arange(joined_length)
    text = np.full((len(read), joined_length), vocab.pad_id, np.int32)
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


def prompt(
    rows: Sequence[Sequence[int]],
    vocab: VocabInfo,
    layout: str,
    decoder_start: int,
    written: Sequence[int] = (),
) -> Prompt:
    """Inputs with their specials, whose targets are to be generated.

    Args:
      decoder_start: the first token that the decoder of an encoder-decoder reads.
      written: the tokens with which every target begins.
    """
    if layout == "encoder_decoder":
        return seq2seq.prompt(rows, [decoder_start, *written], vocab)
    joined = [[vocab.pad_id, *row, *written] for row in rows]
    group = input_format.causal_input(*pad_rows(joined, vocab.pad_id))
    if layout == "prefix":
        num_read = np.array([len(row) for row in rows], np.int32)[:, None]
        rank = np.maximum(group["rank"] - num_read, 0)
        group |= {"rank": rank, "reach": rank.copy()}
    return Prompt(group)


def specials(before: Sequence[int], vocab: VocabInfo, layout: str) -> Specials:
    """The specials of an input: `before`, and eos at its end.

    A network of one stack reads pad first.
    """
    start = [] if layout == "encoder_decoder" else [vocab.pad_id]
    end = (vocab.eos_id,)
    return Specials((*start, *before), end, between=end)


def needs(layout: str) -> networks.Needs:
    """An encoder and a decoder, or one stack."""
    stacks = "encoder_decoder" if layout == "encoder_decoder" else "one"
    return networks.Needs(pattern=PATTERNS[layout], stacks=stacks)


def loss_terms(
    name: str, net: networks.BoundNetwork, batch: Batch, layout: str, **factors: float
) -> dict[str, Term]:
    """The `seq2seq.target_terms` of a batch."""
    if layout == "encoder_decoder":
        return seq2seq.loss_terms(name, net, batch, **factors)
    readout = net.readout(net.states(batch, scored=batch.get("scored")))
    return seq2seq.target_terms(name, readout, batch, **factors)
