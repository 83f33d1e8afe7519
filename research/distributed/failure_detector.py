"""Detects when a process of a run ends, and stops all processes at the same step.

All messages are keys of the store that JAX's coordinator keeps in process 0. A process
that ends for a known reason writes it there first. One that is killed, or whose machine
fails, sends the coordinator no more heartbeats; if that is process 0, calls of the
store fail. In all three cases the others exit.
"""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from jax.errors import JaxRuntimeError

from research.distributed.peers import Peers, exit_with_error, start_thread

KILLED = "was killed, or its machine is gone"

HEARTBEAT_TIMEOUT_S = 8
"""Seconds without a heartbeat after which a process counts as lost."""

POLL_INTERVAL_S = 1.0
"""Seconds between two questions which processes are alive."""

NEWS_TIMEOUT_S = 5.0
"""Seconds within which the processes tell each other why they end."""

PREFIX = "palimpsest"
"""The prefix of our keys; Orbax and JAX keep others in the same store."""

LONGEST_MS = 2**31 - 1


class ConnectedPeers(Peers):
    """This process among the others of its run.

    Args:
      client: of JAX's coordinator, connected; the coordinator's processes are
        recoverable, else JAX aborts all of them when one is lost.
      index: of this process.
      num_processes: how many processes the run has, at least 2.
      lost_exit_code: exit code for a run that is to be started again.
    """

    def __init__(
        self, client: Any, index: int, num_processes: int, *, lost_exit_code: int
    ):
        super().__init__(lost_exit_code=lost_exit_code)
        self.index, self.num_processes = index, num_processes
        self._client, self._everyone = client, list(range(num_processes))
        self._left = False
        self._end: tuple[int, str] | None = None  # known to all: the code and the line
        host = socket.gethostname()
        client.key_value_set(f"{PREFIX}/name/{index}", f"process {index} on {host}")
        self._started = client.get_live_nodes(self._everyone)  # index -> a random id
        names = self._read("name")  # all have written it: the call above waits for all
        self._names = {i: names.get(str(i), f"process {i}") for i in self._everyone}
        for watch in (self._watch_alive, self._watch_end, self._watch_stop):
            start_thread(self._watch, watch.__name__, watch)

    def request_stop(self, reason: str) -> None:
        self._write_once("stop", f"{self._names[self.index]}: {reason}")

    def announce_failure(self, code: int, line: str, *, await_cause: bool) -> None:
        """Announces why this process ends, if it is the first to end.

        If another one ended before, this process exits here, with that one's code.

        Args:
          await_cause: whether the end of another process may have caused this failure:
            wait for news of it first.
        """
        if await_cause:
            time.sleep(HEARTBEAT_TIMEOUT_S + 2 * POLL_INTERVAL_S)
        line = f"{self._names[self.index]} ended: {line}"
        message = {"code": code, "line": line, "of": self.index}
        if not self._write_once("end", json.dumps(message)):
            time.sleep(NEWS_TIMEOUT_S)  # `_watch_end` exits meanwhile
        self._end = code, line
        self._meet_last("end")

    def leave(self) -> None:
        try:
            self._meet("leave")
        except JaxRuntimeError:
            threading.Event().wait()  # one is lost: `_watch_alive` exits
        self._left = True
        self._meet_last("left")

    def _watch(self, watch: Callable[[], None]) -> None:
        """Runs a thread that watches; the store is in process 0 and fails with it."""
        try:
            watch()
        except JaxRuntimeError:
            self._exit(self.lost_exit_code, f"{self._names[0]} {KILLED}")

    def _watch_alive(self) -> None:
        """Exits when a process is lost, or was replaced by one that started later."""
        alive = self._started
        while len(alive) == self.num_processes and alive == self._started:
            time.sleep(POLL_INTERVAL_S)
            alive = self._client.get_live_nodes(self._everyone)
        same = alive.items() & self._started.items()
        lost = min(set(self._everyone) - dict(same).keys())
        if self.index == 0:
            time.sleep(POLL_INTERVAL_S)  # the others would name process 0 as lost
        self._exit(self.lost_exit_code, f"{self._names[lost]} {KILLED}")

    def _watch_end(self) -> None:
        """Exits when another process has announced its end."""
        message = json.loads(self._await("end"))
        if message["of"] != self.index:
            self._end = message["code"], message["line"]
            self._meet_last("end")
            self._exit(*self._end)

    def _watch_stop(self) -> None:
        """When one wants to stop, all stop at the next check of the furthest one."""
        reason = self._await("stop")
        with self._check_lock:  # no process goes on until the stop is chosen
            key = f"{PREFIX}/checks/{self.index}"
            self._client.key_value_set(key, str(self._num_checks))
            self._meet("stop")
            numbers = [int(number) for number in self._read("checks").values()]
            if 0 in numbers:  # no step has been done since the start
                self._end = self.lost_exit_code, reason
                self._meet_last("end")
                self._exit(*self._end)
            self._stop_at = max(numbers) + 1

    def _exit(self, code: int, line: str) -> None:
        """Ends this process, unless all have left: then each exits by itself.

        An end that was announced is the reason, also of what is lost after it.
        """
        if not self._left:
            exit_with_error(*(self._end or (code, line)))

    def _meet(self, name: str) -> None:
        """Waits until all processes are here; for ever, if one of them is lost."""
        self._client.wait_at_barrier(f"{PREFIX}/{name}", LONGEST_MS)

    def _meet_last(self, name: str) -> None:
        """Waits so that process 0, whose end the others would notice, exits last.

        Not for long, as one of them may be lost; and the others may miss the answer,
        if process 0 has ended by then.
        """

        def meet() -> None:
            with contextlib.suppress(JaxRuntimeError):
                self._meet(name)

        thread = start_thread(meet, name)
        thread.join(NEWS_TIMEOUT_S if self.index == 0 else POLL_INTERVAL_S)

    def _read(self, name: str) -> dict[str, str]:
        """What the processes have written under a name, by index."""
        items = self._client.key_value_dir_get(f"{PREFIX}/{name}")
        return {key.rpartition("/")[2]: value for key, value in items}

    def _write_once(self, name: str, value: str) -> bool:
        """Whether this process was the first to write."""
        try:
            self._client.key_value_set(f"{PREFIX}/{name}", value)
        except JaxRuntimeError:  # written before, or process 0 is lost
            return False
        return True

    def _await(self, name: str) -> str:
        """The value of a key as soon as it is written."""
        while True:
            try:
                return self._client.blocking_key_value_get(
                    f"{PREFIX}/{name}", LONGEST_MS
                )
            except JaxRuntimeError as error:
                if "DEADLINE_EXCEEDED" not in str(error):
                    raise
