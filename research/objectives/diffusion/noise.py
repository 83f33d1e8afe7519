"""Masks of discrete diffusion: rates, weights of a bound on log p, masked tokens.

The bound on -log p(text) of a model that predicts masked tokens is the mean, over t in
(0, 1) and independent masks at rate 1 - alpha(t), of -alpha'(t) / (1 - alpha(t)) times
the loss of all masked tokens (Sahoo et al. 2024, equation 10). It equals the mean of
n / l times that loss over counts l in 1..n and subsets of l of n tokens (Ou et al.
2024, theorem 2), and the mean over all orders in which the tokens are predicted one by
one.
"""

# B batch, N blocks of a row, S tokens of a block, L = N * S

from typing import NamedTuple

import numpy as np

from research.data import counter_rng


class Noise(NamedTuple):
    """A rate of masks and the weight of a masked token's loss, each [B, N]."""

    rate: np.ndarray
    weight: np.ndarray


def stratified(
    key: np.ndarray, stratum: np.ndarray, num_strata: int, num_blocks: int
) -> np.ndarray:
    """[B, N] in [0, 1): uniform draws; the blocks of a row are in consecutive strata.

    Block j of N in a row with stratum [B] i of n draws from the (i N + j)-th of n N
    equal parts, as the antithetic sampling of MDLM (kuleshov-group/mdlm, diffusion.py,
    _sample_t) and of block diffusion (kuleshov-group/bd3lms, same function).
    """
    part = stratum[:, None] % num_strata * num_blocks + np.arange(num_blocks)
    draw = counter_rng.uniform(key, "rate", num_blocks)
    return (part + draw) / (num_strata * num_blocks)


def by_rarity(
    rank: np.ndarray, candidate: np.ndarray, rate: np.ndarray, power: float
) -> np.ndarray:
    """[B, L]: mask rates that are higher for rare tokens, with the row's mean rate.

    Ranks are scaled to 0..1 in each row, raised to the power and scaled to the mean, so
    that the most frequent token of a row is never masked while the rate is below the
    mean of the powers (DespoinaKK/babylm-diffusion, masking_processor.py,
    _compute_frequency_mask_probabilities).

    Args:
      rank: [B, L], frequency rank of each token; the rarest has the largest.
      candidate: [B, L] bool, tokens that may be masked.
      rate: [B, 1].
    """
    low = np.where(candidate, rank, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    high = np.where(candidate, rank, -np.inf).max(
        axis=1, keepdims=True, initial=-np.inf
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        scaled = np.where(candidate, (rank - low) / (high - low + 1e-8), 0.0) ** power
        scaled = np.where(candidate, scaled, 0.0)
        count = np.maximum(candidate.sum(axis=1, keepdims=True), 1)
        mean = scaled.sum(axis=1, keepdims=True) / count
        lower = scaled * rate / (mean + 1e-8)
        higher = 1 - (1 - scaled) * (1 - rate) / (1 - mean + 1e-8)
    return np.where(mean > rate, lower, np.where(mean < rate, higher, scaled))


def counts_inside(
    rate: np.ndarray, num: np.ndarray, least: float, most: float, draw: np.ndarray
) -> np.ndarray:
    """[B, N]: binomial counts of masks, given that their fraction is in an interval.

    This is the distribution of masks that are drawn again until their fraction is
    inside (kuleshov-group/bd3lms, diffusion.py, _resample_q_xt). Blocks without such a
    count are drawn without the condition.

    Args:
      rate, draw: [B, N], draw in [0, 1).
      num: [B, N], tokens of each block.
    """
    from scipy import stats  # imported when needed: it takes a second

    count = np.arange(num.max(initial=0) + 1)
    pmf = stats.binom.pmf(count, num[..., None], rate[..., None])
    fraction = count / np.maximum(num, 1)[..., None]
    inside = (fraction >= least - 1e-9) & (fraction <= most + 1e-9)
    given = np.where(inside, pmf, 0.0)
    given = np.where(given.sum(-1, keepdims=True) > 0, given, pmf)
    end = np.cumsum(given, axis=-1)
    return (draw[..., None] * end[..., -1:] >= end).sum(axis=-1)


def in_blocks(array: np.ndarray, size: int) -> np.ndarray:
    """[B, N, S]: a row's tokens [B, L] in blocks; the last is padded with zeros."""
    missing = -array.shape[1] % size
    return np.pad(array, ((0, 0), (0, missing))).reshape(len(array), -1, size)


def choose_counts(
    key: np.ndarray, candidate: np.ndarray, count: np.ndarray, size: int
) -> np.ndarray:
    """[B, L] bool: `count` [B, N] candidates per block, all subsets equally likely."""
    length = candidate.shape[1]
    score = counter_rng.candidate_scores(key, "choose", candidate)
    block = in_blocks(~score, size)  # padding has the smallest: it is chosen last
    order = np.argsort(~block, axis=-1, kind="stable").argsort(axis=-1, kind="stable")
    chosen = (order < count[..., None]).reshape(len(key), -1)[:, :length]
    return chosen & candidate
