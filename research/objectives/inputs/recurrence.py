"""Mems (Transformer-XL) that are carried from step to step within a stream."""

# B batch, L length, N positions of the mems, D width

from typing import Any

import jax
import jax.numpy as jnp


def mems_from_carry(net: Any, batch: dict, mem_len: int) -> dict[str, jax.Array]:
    """The mems of each row, of `mem_len` positions, from the previous step.

    A row has mems only if its example follows that of the previous step, so that text
    after the end of a shard or of an epoch is not read as a continuation.

    Args:
      batch: has `example` [B] and `carry` from `carry_from_mems`; before the first step
        the carry is all zeros, None or absent.

    Returns:
      arrays [B, ...] for `states` of a network; segment [B, N] is 0 without mems.
    """
    carry = batch.get("carry")
    if not carry:
        return net.empty_mems(len(batch["position"]), mem_len)
    continues = batch["example"] == carry["next"]
    segment = jnp.where(continues[:, None], carry["segment"], 0)
    mems = {name: array for name, array in carry.items() if name != "next"}
    return mems | {"segment": segment}


def carry_from_mems(batch: dict, mems: dict, length: int) -> dict[str, jax.Array]:
    """The carry after a step: the mems, and the example that may use them.

    That is the next example, or the previous one in rows with decreasing positions. A
    text shorter than `length` is the last of its shard: no example uses its mems (-1).
    """
    position, full = batch["position"], batch["segment"][:, length - 1] > 0
    following = batch["example"] + position[:, 1] - position[:, 0]
    return mems | {"next": jnp.where(full, following, -1)}
