"""Root without its right to pass by the permissions of files."""

import contextlib
import ctypes
import sys
from collections.abc import Iterator

CAPABILITY_VERSION = 0x20080522
"""Of capset(2), with two words of 32 bits for each set."""
EFFECTIVE, PERMITTED, INHERITABLE = range(3)
DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2
"""Root's capabilities to pass by the permissions of a file, capabilities(7)."""


def obey() -> None:
    """Takes the right from this process for good.

    Raises:
      OSError: the system does not allow it.
    """
    _change((EFFECTIVE, PERMITTED, INHERITABLE), keep=False)


@contextlib.contextmanager
def obeyed() -> Iterator[None]:
    """Takes the right from this thread, and from those it starts, in the block.

    Raises:
      OSError: the system does not allow it.
    """
    _change((EFFECTIVE,), keep=False)
    try:
        yield
    finally:
        _change((EFFECTIVE,), keep=True)


def _change(sets: tuple[int, ...], *, keep: bool) -> None:
    """Takes both capabilities from sets, or gives them the permitted ones again."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    words = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice
    if libc.capget(header, words) == 0:
        both = 1 << DAC_OVERRIDE | 1 << DAC_READ_SEARCH
        for index in sets:
            words[index] &= ~both
            words[index] |= (words[PERMITTED] & both) if keep else 0
        if libc.capset(header, words) == 0:
            return
    raise OSError(ctypes.get_errno(), "the capabilities of root cannot be changed")
