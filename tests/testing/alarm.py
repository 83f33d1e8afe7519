"""A limit on the time of what must not wait."""

import contextlib
import signal
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def ends_within(seconds: int) -> Iterator[None]:
    """Fails the test if the block takes longer, whatever errors the code catches."""
    old = signal.signal(
        signal.SIGALRM, lambda *_: pytest.fail(f"not done in {seconds} s")
    )
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
