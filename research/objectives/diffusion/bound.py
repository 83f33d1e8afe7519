"""Rows that score a text: by a sampled bound on its log p, or token by token."""

# T texts, R raw tokens, S samples of a text, L length, N rows = T * S, or tokens

import numpy as np

from research.contract.batch import Example, VocabInfo
from research.contract.scores import BOUND
from research.data import counter_rng
from research.objectives.diffusion import layout, noise
from research.objectives.noise import scoring

METHODS = {
    "stratified": BOUND,
    "fixed_count": BOUND,
    "independent": BOUND,
}
"""Estimators of the same bound. stratified: the count of masks is uniform in 1..n, with
one draw in each of 16 equal parts; fixed_count: uniform, with independent draws;
independent: each token is masked independently at a rate t, uniform in (MIN_T, 1)."""

REPLICATES, STRATA = 8, 16
"""Independent estimates per text, and draws per estimate: 128 in all, as in LLaDA's
code (ML-GSAI/LLaDA, get_log_likelihood.py)."""

MIN_T = 1e-3
"""The lowest rate of `independent`; the bound lacks the part below, at most a
thousandth of it."""


def score_rows(
    example: Example,
    scored: np.ndarray,
    vocab: VocabInfo,
    length: int,
    method: str,
    *,
    block_size: int,
) -> scoring.ScoreRows:
    """REPLICATES x STRATA rows of each text.

    With blocks of one token, which are always masked, there is one row.

    Only scored tokens are masked. With blocks, each has its own counts, whose strata
    are permuted, so that blocks are independent.

    Args:
      scored: [T, R] bool, the tokens to score.
      method: one of METHODS.
    """
    exact = block_size == 1
    num_samples = 1 if exact else REPLICATES * STRATA
    text = np.repeat(np.arange(len(scored)), num_samples)
    sample = np.tile(np.arange(num_samples), len(scored))
    replicate = sample // STRATA
    rows = example.rows(text)
    token, num_raw, candidate = _after_bos(rows, scored[text], vocab, length)

    size = block_size or length
    num = noise.in_blocks(candidate, size).sum(axis=-1)

    def key_of(counter: np.ndarray) -> np.ndarray:
        first = rows.number * (REPLICATES * STRATA)
        return counter_rng.row_key(0, rows.document, first + counter)

    key = key_of(sample)
    draw = counter_rng.uniform(key, "rate", num.shape[1])
    if method == "stratified":
        shuffle = key_of(replicate)
        part = np.stack(
            [
                counter_rng.permutation(shuffle, f"strata {block}", STRATA)[
                    np.arange(len(text)), sample % STRATA
                ]
                for block in range(num.shape[1])
            ],
            axis=1,
        )
        draw = (part + draw) / STRATA
    if method == "independent" and not exact:
        t = MIN_T + (1 - MIN_T) * draw
        rate = np.repeat(t, size, axis=1)[:, :length]
        chosen = candidate & (counter_rng.uniform(key, "mask", length) < rate)
        weight = 1 / rate
    else:
        count = 1 + (draw * num).astype(np.int64)
        chosen = noise.choose_counts(key, candidate, count, size)
        weight = np.repeat(num / count, size, axis=1)[:, :length]
    arrays = layout.arrays(
        token, num_raw, candidate, chosen, weight * chosen, vocab, block_size
    )
    arrays["weight"] /= num_samples
    arrays["text_weight"][:] = 0
    return scoring.ScoreRows(text, arrays, None if exact else replicate)


def pseudo_rows(
    example: Example,
    scored: np.ndarray,
    vocab: VocabInfo,
    length: int,
    method: str,
    *,
    block_size: int,
) -> scoring.ScoreRows:
    """One row per scored token, which is masked in it.

    With blocks, the token is predicted from the rest of its block and earlier blocks.

    Args:
      scored: [T, R] bool, the tokens to score.
      method: one of `cloze.METHODS`, which decides what else is masked.
    """
    hidden = scoring.HIDE[method](example, scored)
    rows = example.rows(hidden.text)
    token, num_raw, chosen = _after_bos(rows, hidden.mask, vocab, length)
    none = np.zeros(token.shape)
    arrays = layout.arrays(token, num_raw, none, chosen, none, vocab, block_size)
    at = 1 + hidden.first[:, None].astype(np.int32)
    weight = np.ones(at.shape, np.float32)
    arrays |= {"weight": weight, "text_weight": 0 * weight}
    arrays |= {"scored": at, "target": np.take_along_axis(token, at, axis=1)}
    return scoring.ScoreRows(hidden.text, arrays)


def _after_bos(
    rows: Example, mask: np.ndarray, vocab: VocabInfo, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows' tokens after bos, their numbers, and `mask` [N, R] at these positions.

    Returns:
      [N, L] int32, [N] int64 and [N, L] bool.
    """
    num_raw = np.minimum(rows.length, length - 1).astype(np.int64)
    token = layout.with_bos(rows.token, num_raw, vocab, length)
    placed = np.zeros(token.shape, bool)
    width = min(mask.shape[1], length - 1)
    placed[:, 1 : 1 + width] = mask[:, :width]
    return token, num_raw, placed
