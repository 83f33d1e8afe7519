"""The texts that a sampler writes, as arrays."""

# B batch, K hypotheses of a row, T new tokens at most

from typing import NamedTuple

import jax


class Written(NamedTuple):
    """New texts, the best of each row first."""

    token: jax.Array  # [B, K, T], eos included
    length: jax.Array  # [B, K], eos included; 0: there is no such text
    log_p: jax.Array  # [B, K] float32, the sum over the text
    score: jax.Array  # [B, K] float32, what they are ordered by
    ended: jax.Array  # [B, K] bool: by eos; False: by the limit of length
