"""Rows of a denoiser in which only hidden tokens are scored, for one or two stacks."""

# N rows, R raw tokens, L encoder length, T decoder length

import numpy as np

from research.contract.batch import VocabInfo
from research.objectives.layout import seq2seq, text_to_text

NUM_MORE = 2
"""The most tokens by which an input and its target of hidden tokens exceed L."""


def make_batch(
    encoder: tuple[np.ndarray, np.ndarray],
    token: np.ndarray,
    hidden: np.ndarray,
    valid: np.ndarray,
    vocab: VocabInfo,
    *,
    whole: bool,
    first_id: int | None,
    layout: str,
) -> dict[str, np.ndarray]:
    """A batch with weight at the hidden tokens, which the target contains in order.

    Args:
      encoder: [N, L], as `seq2seq.pack` returns it.
      token, hidden, valid: [N, R], the raw tokens, which of them are hidden, and which
        are not padding.
      whole: whether the target is the whole text or only the hidden tokens.
      first_id: a token that precedes the target; None: there is none.
      layout: one of `text_to_text.PATTERNS`.
    """
    width, nonempty = encoder[0].shape[1], np.any(valid, axis=1)
    written = valid if whole else hidden
    target = seq2seq.pack(token, written, nonempty, vocab, width, first_id)
    marks = np.where(hidden, -1, 0)
    marks, _ = seq2seq.pack(marks, written, nonempty, vocab, width, first_id)
    weight = (marks == -1).astype(np.float32)
    joined = width + (width if whole else NUM_MORE)
    batch = text_to_text.make_batch(
        encoder, target, vocab, joined, layout, vocab.pad_id
    )
    if layout == "decoder":  # the target follows the input
        row, slot = np.nonzero(weight)
        weight = np.zeros(batch["weight"].shape, np.float32)
        weight[row, encoder[1][row] + slot] = 1
    return batch | {"weight": weight}
