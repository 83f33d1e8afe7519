"""The processes of one run: each hears when another ends, and they stop together.

Process 0 holds a hub that all of them, itself too, are connected to. A process that
ends for a reason says so first; one whose connection closes without a word was killed,
or its machine is gone. Either way the hub tells the others, and they end at once.
"""

import contextlib
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn

from research.distributed.json_socket import Wire, listen

GONE = "was killed, or its machine is gone"

HEARING = 5.0
"""Seconds in which news of another's end is sure to come, if there is any."""

MEETING = 20.0
"""Seconds after which a process that the hub has not heard of is given up."""


class Address(NamedTuple):
    """Where a hub listens, on which machine, and the word that lets one in."""

    host: str
    port: int
    token: str
    name: str


class Hub:
    """Passes news between the processes of a run; lives in process 0.

    Args:
      count: processes of the run.
      host: by which the others reach this machine.
      lost: exit code of those that lost another.
    """

    def __init__(self, count: int, host: str, *, lost: int):
        self.count, self.lost = count, lost
        near = host in ("localhost", "127.0.0.1", "::1")
        self.server = listen("127.0.0.1" if near else "")
        reached = "127.0.0.1" if near else host
        port = self.server.getsockname()[1]
        token, name = secrets.token_hex(16), socket.gethostname()
        self.address = Address(reached, port, token, name)
        self.lock = threading.Lock()
        self.wires: dict[int, Wire] = {}
        self.names: dict[int, str] = {}
        self.left: set[int] = set()
        self.at: dict[int, int] = {}  # how often each has asked
        self.reason = ""  # why the run is asked to stop
        self.last: dict[str, Any] = {}  # the news that ends the run
        _background(self._accept, "hub")
        _background(self._miss, "hub of all")

    def _accept(self) -> None:
        while True:
            connection, _ = self.server.accept()
            _background(self._serve, "hub of one", Wire(connection))

    def _miss(self) -> None:
        """All have met already to learn where the hub is; a wire takes no time."""
        time.sleep(MEETING)
        with self.lock:
            for index in set(range(self.count)) - self.wires.keys():
                self._end(index, self.lost, GONE)

    def _serve(self, wire: Wire) -> None:
        hello = next(iter(wire), {})
        if hello.get("token") != self.address.token:
            wire.close()
            return
        index = hello["index"]
        with self.lock:
            self.names[index] = f"process {index} on {hello['host']}"
            self.wires[index] = wire
            wire.send(**(self.last or {"welcome": True}))
            if self.reason:
                wire.send(when=True)
        for news in wire:
            with self.lock:
                self._hear(index, news)
        with self.lock:
            if index not in self.left:
                self._end(index, self.lost, GONE)

    def _hear(self, index: int, news: dict[str, Any]) -> None:
        match news:
            case {"code": code, "line": line}:
                self._end(index, code, f"ended: {line}")
            case {"stop": reason}:
                if not self.reason:
                    self.reason = f"{self.names[index]}: {reason}"
                    self._tell(when=True)
            case {"at": point}:
                self.at[index] = point
            case {"bye": True}:
                self.left.add(index)
                if len(self.left) == self.count:
                    self._tell(bye=True)
        if self.reason and len(self.at.keys() | self.left) == self.count:
            self._agree()

    def _agree(self) -> None:
        """The point to stop at: the next of whoever is ahead."""
        points, self.at = list(self.at.values()), {}
        if 0 in points:  # and so no step has been done since the start
            self._finish(code=self.lost, line=self.reason, of=None)
        elif points:
            self._tell(until=max(points) + 1)

    def _end(self, index: int, code: int, line: str) -> None:
        name = self.names.get(index, f"process {index}")
        self._finish(code=code, line=f"{name} {line}", of=index)

    def _finish(self, **news: Any) -> None:
        if not self.last:
            self.last = news
            self._tell(**news)

    def _tell(self, **news: Any) -> None:
        for index in sorted(self.wires, reverse=True):  # for 0 may take us with it
            self.wires[index].send(**news)


class Peers:
    """A process of a run, as it hears of the others; alone by default.

    Args:
      index: of this process.
      count: of all of them.
      address: of the hub, if there are several.
      lost: exit code for a run that is to be started again.
    """

    def __init__(
        self,
        index: int = 0,
        count: int = 1,
        address: Address | None = None,
        *,
        lost: int = 75,
    ):
        self.index, self.count, self.lost = index, count, lost
        self._gate = threading.Lock()
        self._asked = 0  # how often; once it has, there is something to lose
        self._until: int | None = None  # how often all will have asked when they stop
        self._met, self._left = threading.Event(), threading.Event()
        self._told = threading.Event()
        self._wire: Wire | None = None
        if count > 1:
            self._hub = f"process 0 on {address.name}"
            try:
                connection = socket.create_connection(address[:2], timeout=60)
            except OSError:
                self._die(lost, f"{self._hub} {GONE}")
            self._wire = Wire(connection)
            name = socket.gethostname()
            self._wire.send(token=address.token, index=index, host=name)
            _background(self._listen, "peers")
            self._met.wait()  # else news might miss this one

    def stops(self) -> bool:
        """Whether the run is to be saved and stopped here.

        Every process asks at the same points of the run, and all get the same answer.
        """
        with self._gate:
            self._asked += 1
            return self._until is not None and self._asked >= self._until

    def stop(self, reason: str) -> None:
        """Asks all processes to stop at the same point, soon.

        Where a process has not begun its steps, there is nothing to save: all end.
        """
        if self._wire:
            self._wire.send(stop=reason)
            return
        with self._gate:
            if not self._asked:
                self._die(self.lost, reason)
            self._until = self._asked + 1

    @contextlib.contextmanager
    def heeding(self, number: int = signal.SIGTERM) -> Iterator[None]:
        """A signal asks to `stop`, also while the main thread is far from Python."""
        read, write = socket.socketpair()
        write.setblocking(False)
        before = signal.signal(number, lambda *_: None)
        wakeup = signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)

        def wait() -> None:
            while numbers := read.recv(16):
                if number in numbers:
                    name = signal.Signals(number).name
                    self.stop(f"{name} before the first step; nothing is lost")

        thread = _background(wait, "signals")
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            signal.signal(number, before)
            write.close()
            thread.join()
            read.close()

    def fail(self, code: int, line: str, *, outside: bool) -> None:
        """Tells the others why this process ends, if it is the first to.

        If another one ended before, this process ends here, as that one did.

        Args:
          outside: whether another's end may be the cause: wait for news of it first.
        """
        if not self._wire:
            return
        if outside:
            self._told.wait(HEARING)
        self._wire.send(code=code, line=line)
        self._told.wait(HEARING)

    def leave(self) -> None:
        """Waits until all processes have come here; then no end is news any more."""
        if self._wire:
            self._wire.send(bye=True)
            self._left.wait()

    def _listen(self) -> None:
        for news in self._wire:
            match news:
                case {"code": code, "line": line, "of": index}:
                    if index == self.index:
                        self._told.set()
                    else:
                        self._die(code, line)
                case {"when": True}:  # nobody goes on until all have agreed
                    self._gate.acquire()
                    self._wire.send(at=self._asked)
                case {"until": point}:
                    self._until = point
                    self._gate.release()
                case {"welcome": True}:
                    self._met.set()
                case {"bye": True}:
                    self._left.set()
        if not (self._left.is_set() or self._told.is_set()):
            self._die(self.lost, f"{self._hub} {GONE}")

    def _die(self, code: int, line: str) -> NoReturn:
        """Ends the process from any thread; the main one may be waiting for ever."""
        print(f"error: {line}", file=sys.stderr, flush=True)
        os._exit(code)


def _background(target: Any, name: str, *args: Any) -> threading.Thread:
    thread = threading.Thread(target=target, name=name, args=args, daemon=True)
    thread.start()
    return thread
