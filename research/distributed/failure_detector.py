"""Detects when a process of a run ends, and stops all processes at the same step.

Process 0 runs a hub to which every process, itself included, is connected. A process
that ends for a known reason announces it first; one whose connection closes without a
message was killed, or its machine failed. In both cases the hub informs the others,
and they exit at once.
"""

import hmac
import secrets
import socket
import threading
import time
from typing import Any, NamedTuple

from research.distributed.json_socket import JsonSocket, listen
from research.distributed.peers import Peers, exit_with_error, start_thread

KILLED = "was killed, or its machine is gone"

NEWS_TIMEOUT_S = 5.0
"""Seconds within which the news that another process has ended arrives, if any."""

MAX_UNKNOWN = 32
"""Connections whose sender is not known yet; further ones wait."""

CONNECT_TIMEOUT_S = 20.0
"""Seconds after which a process that has not connected to the hub counts as lost."""


class Address(NamedTuple):
    """Where a hub listens, and the secret that a client has to send."""

    host: str
    port: int
    token: str
    name: str  # of the machine, for messages


class Hub:
    """Passes messages between the processes of a run; runs in process 0.

    Args:
      num_processes: of the run.
      host: name or address by which the others reach this machine.
      lost_exit_code: exit code of the processes that lost another one.
    """

    def __init__(self, num_processes: int, host: str, *, lost_exit_code: int):
        self.num_processes, self.lost_exit_code = num_processes, lost_exit_code
        is_local = host in ("localhost", "127.0.0.1", "::1")
        self.server = listen("127.0.0.1" if is_local else "")
        reached = "127.0.0.1" if is_local else host
        port = self.server.getsockname()[1]
        token, name = secrets.token_hex(16), socket.gethostname()
        self.address = Address(reached, port, token, name)
        self.lock = threading.Lock()
        self.sockets: dict[int, JsonSocket] = {}
        self.names: dict[int, str] = {}
        self.left: set[int] = set()
        self.num_checks: dict[int, int] = {}  # calls of `should_stop`, by process
        self.stop_reason = ""
        self.final_message: dict[str, Any] = {}  # the one that ends the run
        self.unknown = threading.Semaphore(MAX_UNKNOWN)
        start_thread(self._accept, "hub")
        start_thread(self._find_missing, "hub timeout")

    def _accept(self) -> None:
        while True:
            self.unknown.acquire()  # released in `_serve`
            connection, _ = self.server.accept()
            start_thread(self._serve, "hub client", JsonSocket(connection))

    def _find_missing(self) -> None:
        """Every process knows the address by now; one that is not connected is dead."""
        time.sleep(CONNECT_TIMEOUT_S)
        with self.lock:
            for index in set(range(self.num_processes)) - self.sockets.keys():
                self._process_ended(index, self.lost_exit_code, KILLED)

    def _serve(self, client: JsonSocket) -> None:
        hello = client.receive_first()
        self.unknown.release()
        token = str(hello.get("token")).encode()
        if not hmac.compare_digest(token, self.address.token.encode()):
            client.close()
            return
        index = hello["index"]
        with self.lock:
            self.names[index] = f"process {index} on {hello['host']}"
            self.sockets[index] = client
            client.send(**(self.final_message or {"welcome": True}))
            if self.stop_reason:
                client.send(pause=True)
        for message in client:
            with self.lock:
                self._receive(index, message)
        with self.lock:
            if index not in self.left:
                self._process_ended(index, self.lost_exit_code, KILLED)

    def _receive(self, index: int, message: dict[str, Any]) -> None:
        match message:
            case {"code": code, "line": line}:
                self._process_ended(index, code, f"ended: {line}")
            case {"stop": reason}:
                if not self.stop_reason:
                    self.stop_reason = f"{self.names[index]}: {reason}"
                    self._broadcast(pause=True)
            case {"num_checks": number}:
                self.num_checks[index] = number
            case {"leave": True}:
                self.left.add(index)
                if len(self.left) == self.num_processes:
                    self._broadcast(all_left=True)
        answered = self.num_checks.keys() | self.left
        if self.stop_reason and len(answered) == self.num_processes:
            self._choose_stop()

    def _choose_stop(self) -> None:
        """All stop at the next check of the process that is furthest ahead."""
        numbers, self.num_checks = list(self.num_checks.values()), {}
        if 0 in numbers:  # no step has been done since the start
            self._end_run(code=self.lost_exit_code, line=self.stop_reason, of=None)
        elif numbers:
            self._broadcast(stop_at=max(numbers) + 1)

    def _process_ended(self, index: int, code: int, line: str) -> None:
        name = self.names.get(index, f"process {index}")
        self._end_run(code=code, line=f"{name} {line}", of=index)

    def _end_run(self, **message: Any) -> None:
        if not self.final_message:
            self.final_message = message
            self._broadcast(**message)

    def _broadcast(self, **message: Any) -> None:
        for index in sorted(self.sockets, reverse=True):  # process 0, ours, exits last
            self.sockets[index].send(**message)


class ConnectedPeers(Peers):
    """The connection of one process to the others of its run.

    Args:
      index: of this process.
      num_processes: of the run, at least 2.
      address: of the hub.
      lost_exit_code: exit code for a run that is to be started again.
    """

    def __init__(
        self, index: int, num_processes: int, address: Address, *, lost_exit_code: int
    ):
        super().__init__(lost_exit_code=lost_exit_code)
        self.index, self.num_processes = index, num_processes
        self._connected, self._all_left = threading.Event(), threading.Event()
        self._end_announced = threading.Event()
        self._hub_name = f"process 0 on {address.name}"
        try:
            connection = socket.create_connection(address[:2], timeout=60)
        except OSError:
            exit_with_error(lost_exit_code, f"{self._hub_name} {KILLED}")
        self._socket = JsonSocket(connection)
        host = socket.gethostname()
        self._socket.send(token=address.token, index=index, host=host)
        start_thread(self._receive, "peers")
        self._connected.wait()  # else messages to all might miss this process

    def request_stop(self, reason: str) -> None:
        self._socket.send(stop=reason)

    def announce_failure(self, code: int, line: str, *, await_cause: bool) -> None:
        """Announces why this process ends, if it is the first to end.

        If another one ended before, this process exits here, with that one's code.

        Args:
          await_cause: whether the end of another process may have caused this failure:
            wait for news of it first.
        """
        if await_cause:
            self._end_announced.wait(NEWS_TIMEOUT_S)
        self._socket.send(code=code, line=line)
        self._end_announced.wait(NEWS_TIMEOUT_S)

    def leave(self) -> None:
        self._socket.send(leave=True)
        self._all_left.wait()

    def _receive(self) -> None:
        for message in self._socket:
            match message:
                case {"code": code, "line": line, "of": index}:
                    if index == self.index:
                        self._end_announced.set()
                    else:
                        exit_with_error(code, line)
                case {"pause": True}:  # no process proceeds until "stop_at" arrives
                    self._check_lock.acquire()
                    self._socket.send(num_checks=self._num_checks)
                case {"stop_at": number}:
                    self._stop_at = number
                    self._check_lock.release()
                case {"welcome": True}:
                    self._connected.set()
                case {"all_left": True}:
                    self._all_left.set()
        if not (self._all_left.is_set() or self._end_announced.is_set()):
            exit_with_error(self.lost_exit_code, f"{self._hub_name} {KILLED}")
