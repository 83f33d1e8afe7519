"""XLNet's query stream: queries after the text (Yang et al. 2019, section 2.3)."""

# B batch, L length of the text, K queries

from collections.abc import Mapping

import numpy as np

from research.contract.batch import NEVER, VocabInfo
from research.objectives.layout import input_format


def append_queries(
    content: Mapping[str, np.ndarray],
    chosen: np.ndarray,
    vocab: VocabInfo,
    num_scored: int,
) -> dict[str, np.ndarray]:
    """Appends a query for each target and scores it.

    Args:
      content: the six arrays of the text, [B, L] each. A query attends to what its
        target attends to, except the target: its reach is one less. INTERVAL_ARRAYS are
        not supported, since they might show the target.
      chosen: [B, L] bool, the targets; at most K = `num_scored` in a row.
    """
    length = chosen.shape[1]
    target_index, used = input_format.scored_positions(chosen, num_scored)
    flat_index = np.arange(len(chosen))[:, None] * length + target_index
    of_target = {name: array.take(flat_index) * used for name, array in content.items()}
    target = of_target["token"]
    query = of_target | {
        "token": np.where(used, vocab.mask_id, vocab.pad_id),
        "rank": np.full_like(target_index, NEVER),
        "reach": of_target["reach"] - 1,
    }
    group = {
        name: np.concatenate([content[name], query[name]], axis=1, dtype=np.int32)
        for name in content
    }
    query_index = length + np.arange(target_index.shape[1], dtype=np.int32)
    return group | {
        "scored": np.where(used, query_index, 0),
        "target": np.where(used, target, vocab.pad_id).astype(np.int32),
        "weight": used.astype(np.float32),
    }
