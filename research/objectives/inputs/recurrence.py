"""Memories that go from one step to the next for as long as a row's text runs on."""

# B batch, L length, N remembered places, D width

from typing import Any

import jax
import jax.numpy as jnp


def recall(net: Any, batch: dict, places: int) -> dict[str, jax.Array]:
    """What each row remembers: `places` that the step before left, or nothing.

    A row remembers only if its example is the next one after that of the step before,
    so that neither the end of a shard nor another epoch is read as text that goes on.

    Args:
      batch: `example` [B], and `carry`, as `remember` gives it; all zeros, None or
        absent before the first step.

    Returns:
      state [B, layers, N, D] and segment [B, N], as networks take a memory.
    """
    carry = batch.get("carry")
    if not carry:
        return net.empty_mems(len(batch["position"]), places)
    goes_on = batch["example"] == carry["next"]
    segment = jnp.where(goes_on[:, None], carry["segment"], 0)
    return {"state": carry["state"], "segment": segment}


def remember(batch: dict, memory: dict, length: int) -> dict[str, jax.Array]:
    """The carry after a step: the memory, and the example that it is of use for.

    It is the next one, or the one before in rows whose positions fall; none after a
    text that is short of `length` places, since that is the last of its shard.
    """
    position, full = batch["position"], batch["segment"][:, length - 1] > 0
    following = batch["example"] + position[:, 1] - position[:, 0]
    return memory | {"next": jnp.where(full, following, -1)}
