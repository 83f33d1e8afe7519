"""The arrays around tokens: who sees whom in the plain patterns, and scored places."""

# B batch, L length, K scored places, R raw tokens an example

import numpy as np

from research.batch import Example, Symbols


def enclose(
    example: Example, symbols: Symbols, length: int, *, bos: str = "first"
) -> tuple[np.ndarray, np.ndarray]:
    """bos, raw tokens, eos; or raw tokens, eos, bos with `bos` "last" (XLNet).

    An empty row stays empty. Raw tokens past L - 2 are left out.

    Returns:
      token [B, L] int32, and the number of tokens of each row [B].
    """
    num_raw = np.minimum(example.length, length - 2)
    width = min(example.token.shape[1], length - 2)
    row, first = np.arange(len(num_raw)), int(bos == "first")
    token = np.full((len(num_raw), length), symbols.pad, np.int32)
    token[:, first : first + width] = example.token[:, :width]
    token[row, first + num_raw] = symbols.eos
    token[row, np.where(first, 0, num_raw + 1)] = symbols.bos
    token[num_raw == 0] = symbols.pad
    return token, np.where(num_raw > 0, num_raw + 2, 0)


def full(token: np.ndarray, length: np.ndarray, prefix: str = "") -> dict:
    """The six arrays of rows whose first `length` [B] tokens all see each other."""
    group = _plain(token, length)
    group |= {"rank": np.zeros_like(token), "reach": np.zeros_like(token)}
    return {prefix + name: array for name, array in group.items()}


def causal(token: np.ndarray, length: np.ndarray, prefix: str = "") -> dict:
    """The six arrays of rows whose tokens each see themselves and what is before."""
    group = _plain(token, length)
    group |= {name: group["position"].copy() for name in ("rank", "reach")}
    return {prefix + name: array for name, array in group.items()}


def _plain(token: np.ndarray, length: np.ndarray) -> dict:
    place = np.arange(token.shape[1], dtype=np.int32)
    return {
        "token": token,
        "position": np.tile(place, (len(token), 1)),
        "segment": (place < length[:, None]).astype(np.int32),
        "kind": np.zeros_like(token),
    }


def slots(chosen: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The chosen places [B, L] in order: scored [B, K] int32, and which are used.

    Rows hold at most K = `count` chosen places; unused slots point at place 0. Both
    `x[chosen]` and `y[used]` run through the same places in the same order.
    """
    used = np.arange(count) < chosen.sum(axis=1)[:, None]
    scored = np.zeros(used.shape, np.int32)
    scored[used] = np.flatnonzero(chosen) % chosen.shape[1]
    return scored, used
