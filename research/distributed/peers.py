"""The other processes of a run, with which this one stops: none, in a single process.

The failure detector connects those of a run of several processes.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn

LOST_EXIT_CODE = 75
"""Exit code of a run that is to be started again, unless its starter has another."""


class Peers:
    """The other processes of a run, as this one sees them: here there are none.

    Args:
      lost_exit_code: exit code for a run that is to be started again.
    """

    index, num_processes = 0, 1

    def __init__(self, *, lost_exit_code: int = LOST_EXIT_CODE):
        self.lost_exit_code = lost_exit_code
        self._check_lock = threading.Lock()  # held while the stop is chosen
        self._num_checks = 0  # once it is not 0, there is progress to save
        self._stop_at: int | None = None  # the number of checks at which all stop

    def should_stop(self) -> bool:
        """Whether the run is to be saved and stopped here.

        Every process calls this at the same points of the run and gets the same answer.
        """
        with self._check_lock:
            self._num_checks += 1
            return self._stop_at is not None and self._num_checks >= self._stop_at

    def request_stop(self, reason: str) -> None:
        """Requests that all processes stop at the same point, soon.

        If a process has not begun its steps, there is nothing to save: all exit.
        """
        with self._check_lock:
            if not self._num_checks:
                exit_with_error(self.lost_exit_code, reason)
            self._stop_at = self._num_checks + 1

    @contextlib.contextmanager
    def handle_sigterm(self) -> Iterator[None]:
        """On SIGTERM calls `request_stop`, even while the main thread is in C code."""
        read, write = socket.socketpair()
        write.setblocking(False)
        old_handler = signal.signal(signal.SIGTERM, lambda *_: None)
        old_fd = signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)

        def wait() -> None:
            while numbers := read.recv(16):
                if signal.SIGTERM in numbers:
                    self.request_stop("SIGTERM before the first step; nothing is lost")

        thread = start_thread(wait, "signals")
        try:
            yield
        finally:
            signal.set_wakeup_fd(old_fd)
            signal.signal(signal.SIGTERM, old_handler)
            write.close()
            thread.join()
            read.close()

    def leave(self) -> None:
        """Waits until all processes have called this; from then on each may exit."""


def exit_with_error(code: int, line: str) -> NoReturn:
    """Ends the process from any thread; the main thread may be blocked forever."""
    print(f"error: {line}", file=sys.stderr, flush=True)
    os._exit(code)


def start_thread(target: Any, name: str, *args: Any) -> threading.Thread:
    """Starts a daemon thread that runs target(*args)."""
    thread = threading.Thread(target=target, name=name, args=args, daemon=True)
    thread.start()
    return thread
