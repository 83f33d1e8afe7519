"""What becomes of chosen tokens, what is to be recovered of them, and from where."""

# B batch, L length, K scored places, T trigrams of a row

import itertools

import numpy as np

from research.batch import VocabInfo
from research.data import counter_rng
from research.objectives.corruption import mask_units
from research.objectives.inputs import input_format

ROUNDINGS = ("nearest", "up", "random")
DRAWS = ("ordinary", "all")
FATES = ("token", "span")

ORDERS = np.array(list(itertools.permutations(range(3))))
"""All orders of a trigram."""


def budget(
    num_tokens: np.ndarray,
    rate: float,
    most: int,
    *,
    rounding: str = "nearest",
    key: np.ndarray | None = None,
) -> np.ndarray:
    """[B]: how many of `num_tokens` [B] are chosen, at most `most`.

    nearest: rate * tokens, half-way cases to the even one, at least 1 (BERT). up: the
    next whole number (SpanBERT). random: floor(rate * tokens + u) with u uniform in
    [0, 1), keyed by row (fairseq), which has the mean rate * tokens and may be 0.
    """
    share = rate * num_tokens
    if rounding == "random":
        count = np.floor(share + counter_rng.uniform(key, "budget", 1)[:, 0])
    elif rounding == "up":
        count = np.ceil(share - 1e-9)
    else:
        count = np.maximum(np.rint(share), 1)
    return np.where(num_tokens > 0, np.minimum(count, most), 0).astype(np.int64)


def hide(
    token: np.ndarray,
    chosen: np.ndarray,
    key: np.ndarray,
    vocab: VocabInfo,
    *,
    num_scored: int,
    mask: float,
    random: float,
    replace: str = "token",
    draw: str = "ordinary",
) -> dict[str, np.ndarray]:
    """Overwrites the chosen places [B, L] of `token` in place.

    Each becomes the mask token, another one (which may be the same), or stays.

    Args:
      mask, random: shares of the first two.
      replace: token: each place for itself. span: places in an unbroken row share
        their fate, though other tokens are drawn one by one.
      draw: the other tokens: ordinary ones, or of the whole vocabulary (BERT).

    Returns:
      scored, target, weight [B, K].
    """
    scored, used = input_format.slots(chosen, num_scored)
    target = np.full(used.shape, vocab.pad_id, np.int32)
    target[used] = token[chosen]
    bits = counter_rng.random_bits(key, "replace", num_scored)
    share = (bits >> np.uint64(32)) * 2.0**-32
    if replace == "span":
        share = np.take_along_axis(share, _ends(scored, used)[0], axis=1)
    pool = vocab.ordinary_ids if draw == "ordinary" else np.arange(vocab.size)
    other = bits & np.uint64(2**32 - 1)
    other = other * np.uint64(len(pool)) >> np.uint64(32)
    new = np.where(share < mask + random, pool[other], target)
    new = np.where(share < mask, vocab.mask_id, new)
    token[chosen] = new[used]
    return {"scored": scored, "target": target, "weight": used.astype(np.float32)}


def boundaries(scored: np.ndarray, weight: np.ndarray) -> dict[str, np.ndarray]:
    """left, right, offset [B, K]: the clear places around each span, and where in it.

    A span is an unbroken row of scored places; the offset counts from 0 (Joshi et al.
    2020, 3.2: its released code joins spans that touch, too).
    """
    used = weight > 0
    first, last = (
        np.take_along_axis(scored, slot, axis=1) for slot in _ends(scored, used)
    )
    each = {"left": first - 1, "right": last + 1, "offset": scored - first}
    return {name: np.where(used, array, 0) for name, array in each.items()}


def _ends(scored: np.ndarray, used: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[B, K] each: the first and the last slot of the span of each slot."""
    slot = np.arange(scored.shape[1])
    follows = used[:, 1:] & (np.diff(scored, axis=1) == 1)
    begins = np.pad(~follows, [(0, 0), (1, 0)], constant_values=True)
    ends = np.pad(~follows, [(0, 0), (0, 1)], constant_values=True)
    first = np.maximum.accumulate(np.where(begins, slot, 0), axis=1)
    last = np.where(ends, slot, len(slot))[:, ::-1]
    return first, np.minimum.accumulate(last, axis=1)[:, ::-1]


def num_trigrams(num_tokens, share: float):
    """Trigrams that make up a share of tokens, half-way cases to the even number."""
    return np.rint(share * np.asarray(num_tokens) / 3).astype(np.int64)


def shuffle(
    token: np.ndarray,
    candidate: np.ndarray,
    key: np.ndarray,
    vocab: VocabInfo,
    *,
    count: np.ndarray,
    most: int,
) -> dict[str, np.ndarray]:
    """Shuffles `count` [B] <= `most` trigrams of candidates [B, L] in place.

    All six orders are equally likely, also that of the text (Wang et al. 2020, 2.2).

    Returns:
      scored, target, weight [B, 3 * most]: each token is asked for at its own place.
    """
    single = np.ones(candidate.shape, bool)
    whole = np.array([0.0, 0.0, 1.0])
    chosen = mask_units.runs(
        key, "trigram", single, candidate, 3 * count, whole, shorter=False
    )
    scored, used = input_format.slots(chosen, 3 * most)
    target = np.full(used.shape, vocab.pad_id, np.int32)
    target[used] = token[chosen]
    drawn = counter_rng.random_bits(key, "order", most) % np.uint64(len(ORDERS))
    target_BT3 = target.reshape(len(token), most, 3)
    order_BT3 = ORDERS[drawn.astype(np.intp)]
    new = np.take_along_axis(target_BT3, order_BT3, axis=2).reshape(used.shape)
    token[chosen] = new[used]
    return {"scored": scored, "target": target, "weight": used.astype(np.float32)}
