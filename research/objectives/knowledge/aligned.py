"""The raw token at each position of a row, for rows of any objective."""

# B batch, L columns of a row, R raw tokens

import numpy as np

from research.contract.batch import Example, VocabInfo
from research.contract.errors import UserError


def raw_index(
    example: Example, batch: dict[str, np.ndarray], vocab: VocabInfo, name: str
) -> np.ndarray:
    """[B, L] int64: the raw token at each position; -1: a special or padding.

    Rows have the tokens of the text in order, between specials and up to some token;
    scored ones may be hidden.

    Args:
      batch: has token [B, L], and scored [B, K] if tokens are hidden.
      name: of the objective that made the rows.

    Raises:
      UserError: rows are not in the order of the text.
    """
    token, specials = batch["token"], [vocab.pad_id, vocab.bos_id, vocab.eos_id]
    in_row, in_raw = ~np.isin(token, specials), ~np.isin(example.token, specials)
    in_raw &= np.arange(in_raw.shape[1]) < example.length[:, None]
    order = np.argsort(~in_raw, axis=1, kind="stable")
    nth = np.maximum(np.cumsum(in_row, axis=1) - 1, 0)
    fits = in_row.sum(axis=1) <= in_raw.sum(axis=1)
    index = np.take_along_axis(order, np.minimum(nth, order.shape[1] - 1), axis=1)
    raw = np.take_along_axis(example.token, index, axis=1)
    hidden = token == vocab.mask_id
    if "scored" in batch:
        np.put_along_axis(hidden, batch["scored"], True, axis=1)
    if not fits.all() or (in_row & ~hidden & (raw != token)).any():
        raise UserError(
            f"objective {name} has rows whose tokens are not in the order of the text, "
            "so that knowledge of words cannot be aligned with them; choose another "
            "base_objective, or other fields of it"
        )
    return np.where(in_row, index, -1)


def at_positions(array: np.ndarray, index: np.ndarray, missing: int) -> np.ndarray:
    """[B, L] int32: the values of raw tokens [B, R] at positions; `missing` elsewhere.

    Args:
      index: from `raw_index`.
    """
    found = np.take_along_axis(array, np.maximum(index, 0), axis=1)
    return np.where(index >= 0, found, missing).astype(np.int32)
