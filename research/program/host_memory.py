"""Keeps memory freed by a train step on a CPU for the next step."""

import ctypes
import importlib.metadata
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Parameters of glibc's mallopt (malloc.h)."""
UNLIMITED = 2**31 - 1


def keep_freed_memory() -> None:
    """Lets glibc keep up to 2 GiB of freed memory, for steps that run on a CPU.

    XLA:CPU allocates temporary buffers again at every step. glibc gets buffers of this
    size by mmap and unmaps them when they are freed, so the kernel has to zero their
    pages at every step: a third of the time at scale smoke. A thread's heap holds at
    most 64 MiB, so all threads share one heap.

    Call it before XLA starts its threads. With other C libraries it does nothing.
    """
    if sys.platform != "linux" or not _runs_on_cpu():
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    if not mallopt(M_MMAP_THRESHOLD, UNLIMITED):
        return  # an older glibc rejects this and keeps its adaptive thresholds
    mallopt(M_TRIM_THRESHOLD, UNLIMITED)
    mallopt(M_ARENA_MAX, 1)


def _runs_on_cpu() -> bool:
    platforms = os.environ.get("JAX_PLATFORMS")
    if platforms:
        return platforms == "cpu"
    return not importlib.metadata.entry_points(group="jax_plugins")
