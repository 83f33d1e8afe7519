"""Memory of the host: what a train step frees is kept for the next one."""

import ctypes
import importlib.metadata
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
"""Parameters of glibc's mallopt (malloc.h)."""
UNLIMITED = 2**31 - 1


def keep_freed_memory() -> None:
    """Lets glibc keep what is freed, up to 2 GiB, where steps run on the CPU.

    XLA:CPU allocates the temporary buffers of a step anew at each step. glibc maps
    buffers of this size and unmaps them when they are freed, so that the kernel fills
    all their pages with zeros at each step: at the sizes of scale smoke a third of the
    time. The heaps of threads cannot hold more than 64 MiB, hence one heap for all.

    To be called before XLA starts its threads. Other C libraries are left as they are.
    """
    if sys.platform != "linux" or not _runs_on_cpu():
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    if not mallopt(M_MMAP_THRESHOLD, UNLIMITED):
        return  # an old glibc has a limit, and thresholds of its own that move
    mallopt(M_TRIM_THRESHOLD, UNLIMITED)
    mallopt(M_ARENA_MAX, 1)


def _runs_on_cpu() -> bool:
    platforms = os.environ.get("JAX_PLATFORMS")
    if platforms:
        return platforms == "cpu"
    return not importlib.metadata.entry_points(group="jax_plugins")
