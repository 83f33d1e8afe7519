"""What Ctrl-C and SIGTERM do to a command, from before its imports to its end."""

import gc
import os
import signal
import types

PREEMPTED, INTERRUPTED = 75, 130
"""Exit codes: on SIGTERM, or if another process was lost; on Ctrl-C."""

CONTINUES = "the same command continues from here"

RETRY_S = 0.01
"""Seconds until a Ctrl-C is tried again that came where it would have been lost."""

_at_once = True  # whether Ctrl-C ends the process, instead of raising an exception


def install() -> None:
    """From here on both signals end the process with one line and its exit code.

    A signal that the parent process has ignored stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _on_interrupt)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def raise_interrupts() -> None:
    """From here on the first Ctrl-C raises KeyboardInterrupt; another ends at once.

    For what has something to close or to cancel, after all imports: an exception within
    those of JAX's libraries ends in a traceback, or a crash.
    """
    global _at_once
    _at_once = False


def ignore_interrupts() -> None:
    """For the last line of a command, which Ctrl-C may not print twice."""
    if signal.getsignal(signal.SIGINT) is _on_interrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_interrupt(_: int, frame: types.FrameType | None) -> None:
    global _at_once
    if _at_once:
        _exit(INTERRUPTED, f"interrupted; {CONTINUES}")
    if frame and frame.f_code in [getattr(f, "__code__", None) for f in gc.callbacks]:
        # Python would print and forget an exception raised here; JAX has a callback.
        signal.signal(signal.SIGALRM, _on_interrupt)
        signal.setitimer(signal.ITIMER_REAL, RETRY_S)
        return
    _at_once = True
    raise KeyboardInterrupt


def _on_sigterm(*_: object) -> None:
    _exit(PREEMPTED, f"stopped by SIGTERM; {CONTINUES}")


def _exit(code: int, line: str) -> None:
    os.write(2, f"{line}\n".encode())
    os._exit(code)
