"""The arrays of masked diffusion: one input, or a noised and a clean half (blocks)."""

# B batch, L length of the text with bos, R raw tokens an example

import numpy as np

from research.contract.batch import ArraySpec, VocabInfo, scored_specs
from research.contract.errors import UserError
from research.objectives.layout import input_format


def answer_specs(length: int) -> dict[str, ArraySpec]:
    """target, weight and text_weight, all [L]."""
    text_weight = {"text_weight": ArraySpec((length,), np.float32)}
    return scored_specs(length, gathered=False) | text_weight


def with_bos(
    raw_token: np.ndarray, num_raw: np.ndarray, vocab: VocabInfo, length: int
) -> np.ndarray:
    """[B, L] int32: bos and the first `num_raw` [B] tokens of [B, R].

    `num_raw` is at most L - 1. Rows without text have no bos.
    """
    token = np.full((len(num_raw), length), vocab.pad_id, np.int32)
    width = min(raw_token.shape[1], length - 1)
    token[:, 1 : 1 + width] = raw_token[:, :width]
    token[:, 0] = vocab.bos_id
    size = np.where(num_raw > 0, num_raw + 1, 0)
    return np.where(np.arange(length) < size[:, None], token, vocab.pad_id)


def arrays(
    token: np.ndarray,
    num_raw: np.ndarray,
    candidate: np.ndarray,
    chosen: np.ndarray,
    weight: np.ndarray,
    vocab: VocabInfo,
    block_size: int,
) -> dict[str, np.ndarray]:
    """A batch in which the chosen tokens are masks.

    Args:
      token: [B, L], of `with_bos`.
      candidate, chosen: [B, L] bool, the tokens of the text, and the masked ones.
      weight: [B, L], 0 for tokens that are not masked.
      block_size: S; 0: no blocks, tokens attend to their whole row.
    """
    size = np.where(num_raw > 0, num_raw + 1, 0)
    noised = np.where(chosen, np.int32(vocab.mask_id), token)
    group = input_format.full_input(noised, size)
    answers = {
        "target": np.where(chosen, token, np.int32(vocab.pad_id)),
        "weight": weight.astype(np.float32),
        "text_weight": candidate.astype(np.float32),
    }
    if not block_size:
        return group | answers
    length = token.shape[1]
    group = {name: np.tile(array, 2) for name, array in group.items()}
    group["token"][:, length:] = token
    block = np.tile(np.arange(length, dtype=np.int32) // block_size, (len(token), 1))
    last = length // block_size + 1

    def half(noised: np.ndarray, clean: np.ndarray) -> np.ndarray:
        return np.concatenate([noised, clean], axis=1)

    group |= {
        "rank": half(last + block, block),
        "reach": half(block - 1, block),
        "low2": half(last + block, 0 * block),
        "reach2": half(last + block, 0 * block - 1),
    }
    scored = np.where(chosen, np.arange(length, dtype=np.int32), 0)
    return group | {"scored": scored} | answers


def frequency_rank(vocab: VocabInfo) -> np.ndarray:
    """[V] float64 in (0, 1]: the frequency rank of each token; the rarest has 1.

    Raises:
      UserError: the text has no counts of tokens.
    """
    if vocab.token_count is None:
        raise UserError(
            "objective.frequency_power needs counts of tokens, which data.task does "
            "not have; set it to 0"
        )
    rank = np.empty(vocab.size)
    rank[np.argsort(-vocab.token_count, kind="stable")] = np.arange(vocab.size)
    return (rank + 1) / vocab.size
