"""Handling of Ctrl-C and SIGTERM by commands, starting before their imports."""

import os
import signal
import sys

PREEMPTED, INTERRUPTED = 75, 130
"""Exit codes: after SIGTERM or the loss of another process; after Ctrl-C."""

RESUMES = "; the same command goes on from what is saved"
RESTARTS = "; the same command begins anew"
"""Printed when a command is stopped: whether it keeps parts of its work or not."""

RETRY_S = 0.01
"""Delay after which a Ctrl-C that would be lost is raised again, in seconds."""

_at_once = True  # whether Ctrl-C ends the process, instead of raising an exception
_remedy = ""  # RESUMES or RESTARTS, as soon as the command is known


def install() -> None:
    """Makes both signals end the process with one line and its exit code.

    A signal that the parent process has ignored stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _on_interrupt)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)


def raise_interrupts() -> None:
    """Makes the first Ctrl-C raise KeyboardInterrupt; another one exits immediately.

    For commands that have something to close or to cancel. Call it after all imports:
    an exception during imports of JAX's libraries ends in a traceback or a crash.
    """
    global _at_once
    _at_once = False
    sys.unraisablehook = _on_unraisable


def set_resumes(resumes: bool) -> None:
    """Sets whether the same command resumes after a signal has ended it."""
    global _remedy
    _remedy = RESUMES if resumes else RESTARTS


def interrupted(saved: str) -> str:
    """The line after Ctrl-C; `saved` is the command's own text about what it keeps."""
    return f"interrupted; {saved}" if saved else f"interrupted{_remedy}"


def ignore_interrupts() -> None:
    """Ignores Ctrl-C, so that the last line of a command is not printed twice."""
    if signal.getsignal(signal.SIGINT) is _on_interrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_interrupt(*_: object) -> None:
    global _at_once
    if _at_once:
        _exit(INTERRUPTED, interrupted(""))
    _at_once = True
    raise KeyboardInterrupt


def _on_unraisable(error: "sys.UnraisableHookArgs") -> None:
    """Raises a Ctrl-C again that hit a callback, whose exceptions Python ignores.

    JAX has callbacks of the garbage collector and of weak references.
    """
    global _at_once
    if error.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(error)
        return
    _at_once = False
    signal.signal(signal.SIGALRM, _on_interrupt)
    signal.setitimer(signal.ITIMER_REAL, RETRY_S)


def _on_sigterm(*_: object) -> None:
    _exit(PREEMPTED, f"stopped by SIGTERM{_remedy}")


def _exit(code: int, line: str) -> None:
    os.write(2, f"{line}\n".encode())
    os._exit(code)
