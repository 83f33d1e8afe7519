"""The rows with which a masked language model scores texts: one per token."""

# B rows, L length

import numpy as np

from research.contract.batch import Example, VocabInfo
from research.contract.scores import PSEUDO_LIKELIHOOD
from research.objectives.layout import input_format
from research.objectives.noise import scoring

METHODS = {
    "within_word_l2r": PSEUDO_LIKELIHOOD,
    "original": PSEUDO_LIKELIHOOD,
}
"""Score method (one of `scoring.HIDE`) -> the meaning of its score."""


def score_rows(
    example: Example, scored: np.ndarray, vocab: VocabInfo, length: int, method: str
) -> scoring.ScoreRows:
    """Rows bos, text, eos: one per scored token, which is masked in it.

    Args:
      scored: [texts, R] bool, the tokens to score.
      method: one of `scoring.HIDE`; it decides what else is masked.
    """
    hidden = scoring.HIDE[method](example, scored)
    text = input_format.single(example.rows(hidden.text), vocab, length)
    at = 1 + hidden.first[:, None].astype(np.int32)
    target = np.take_along_axis(text.token, at, axis=1)
    row, token = np.nonzero(hidden.mask)
    text.token[row, 1 + token] = vocab.mask_id
    arrays = input_format.full_input(text.token, text.length)
    weight = np.ones(at.shape, np.float32)
    arrays |= {"scored": at, "target": target, "weight": weight}
    return scoring.ScoreRows(hidden.text, arrays)
