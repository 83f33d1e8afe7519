"""Mems (Transformer-XL) that are carried from one step to the next within a stream."""

# B batch, L length, N positions of the mems, D width

from typing import Any

import jax
import jax.numpy as jnp


def mems_from_carry(net: Any, batch: dict, mem_len: int) -> dict[str, jax.Array]:
    """The mems of each row: `mem_len` positions that the step before left, or none.

    A row has mems only if its example follows that of the step before, so that text
    after the end of a shard or of an epoch is not read as a continuation.

    Args:
      batch: `example` [B], and `carry` from `carry_from_mems`; the carry is all zeros,
        None or absent before the first step.

    Returns:
      arrays [B, ...] as networks take them; segment [B, N] is 0 where there are none.
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

    That is the next example, or the one before in rows whose positions fall. A text
    shorter than `length` is the last of its shard: no example may use its mems (-1).
    """
    position, full = batch["position"], batch["segment"][:, length - 1] > 0
    following = batch["example"] + position[:, 1] - position[:, 0]
    return mems | {"next": jnp.where(full, following, -1)}
