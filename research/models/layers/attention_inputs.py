"""The integer arrays that attention reads: which keys a query attends to, and where."""

# B batch, L queries, M keys, N mems, R buckets, H heads

from collections.abc import Mapping
from typing import NamedTuple

import jax


class TokenArrays(NamedTuple):
    """Arrays of the queries [B, L] or of the keys [B, M] of one attention layer."""

    segment: jax.Array
    rank: jax.Array | None = None  # read for keys
    reach: jax.Array | None = None  # read for queries
    position: jax.Array | None = None  # None: attention ignores positions
    token_type: jax.Array | None = None  # likewise; queries of an encoder choose by it


class AttentionInputs(NamedTuple):
    """All that decides who attends to whom; an implementation needs nothing else.

    Query q attends to key k only if their segments are equal and not 0 (padding). The
    pattern adds a condition: "general" rank[k] <= reach[q]; "causal" k <= q as indices
    of the arrays; "full" none. Every query outside padding also attends to all mems
    outside padding, which come before the other keys.
    """

    query: TokenArrays
    key: TokenArrays
    pattern: str = "full"  # full | causal | general
    mems_segment: jax.Array | None = None  # [B, N]; 0: no query attends to it
    bias_table: jax.Array | None = None  # [R, H], T5's relative bias

    @property
    def num_mems(self) -> int:
        """N; 0 without mems."""
        return 0 if self.mems_segment is None else self.mems_segment.shape[1]


def self_attention_inputs(
    group: Mapping,
    pattern: str,
    *,
    num_keys: int | None = None,
    mems_segment: jax.Array | None = None,
    bias_table: jax.Array | None = None,
) -> AttentionInputs:
    """The inputs of attention within a group of arrays [B, L].

    Args:
      pattern: the objective's promise about rank and reach: full | causal | general.
      num_keys: only the first so many positions serve as keys; None: all.
    """
    query = TokenArrays(**{name: group[name] for name in TokenArrays._fields})
    key = TokenArrays(*(array[:, :num_keys] for array in query))
    return AttentionInputs(query, key, pattern, mems_segment, bias_table)


def cross_attention_inputs(
    query_segment_BL: jax.Array, key_segment_BM: jax.Array
) -> AttentionInputs:
    """The inputs of attention to an encoder: only segments are compared.

    Ranks of the two sides are on different scales, and so are their positions.
    """
    return AttentionInputs(TokenArrays(query_segment_BL), TokenArrays(key_segment_BM))
