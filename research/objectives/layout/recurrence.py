"""Mems (Transformer-XL) that are carried from step to step within a stream."""

# B batch, L length, N positions of the mems, D width

import jax
import jax.numpy as jnp

from research.contract.batch import Batch
from research.networks import BoundNetwork, Outputs


def mems_from_carry(
    net: BoundNetwork, batch: Batch, mem_len: int
) -> dict[str, jax.Array]:
    """The mems of each row, of `mem_len` positions, from the previous step.

    A row has mems only if its example follows that of the previous step in the same
    direction, so that text after the end of a shard or epoch is not read as a
    continuation.

    Args:
      batch: has `example` [B] and `carry` from `carry_from_outputs`; before the first
        step the carry is all zeros, None or absent.

    Returns:
      arrays [B, ...] for `outputs` of a network; segment [B, N] is 0 without mems.
    """
    carry = batch.get("carry")
    if not carry:
        return net.empty_mems(len(batch["position"]), mem_len)
    continues = _place(batch["example"], _direction(batch)) == carry["next"]
    segment = jnp.where(continues[:, None], carry["segment"], 0)
    mems = {name: array for name, array in carry.items() if name != "next"}
    return mems | {"segment": segment}


def carry_from_outputs(
    batch: Batch, outputs: Outputs, length: int
) -> dict[str, jax.Array]:
    """The carry after a step: the mems, and the example that may use them.

    That is the next example, or the previous one in rows with decreasing positions. A
    text shorter than `length` is the last of its shard: its mems are not used (-1).
    """
    direction, full = _direction(batch), batch["segment"][:, length - 1] > 0
    following = _place(batch["example"] + direction, direction)
    assert outputs.mems is not None
    return {**outputs.mems, "next": jnp.where(full, following, -1)}


def _direction(batch: Batch) -> jax.Array:
    """[B] int32: 1; -1 in rows with decreasing positions."""
    return batch["position"][:, 1] - batch["position"][:, 0]


def _place(example: jax.Array, direction: jax.Array) -> jax.Array:
    """[B] int32: a number for each example and direction, never -1."""
    return jnp.where(direction < 0, -2 - example, example)
