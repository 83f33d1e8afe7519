"""A connection between two processes of a run, and how one is listened for."""

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

SILENCE = 10
"""Seconds after which the system takes a machine that answers no more for dead."""


class Wire:
    """A connection that carries JSON objects, one a line."""

    def __init__(self, connection: socket.socket):
        connection.settimeout(None)
        _keep_alive(connection)
        self.connection = connection
        self.lines = connection.makefile("r", encoding="utf-8")
        self.lock = threading.Lock()

    def send(self, **news: Any) -> None:
        """Sends, if there is still one to hear it; its end is news of its own."""
        line = (json.dumps(news) + "\n").encode()
        with self.lock, contextlib.suppress(OSError):
            self.connection.sendall(line)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with contextlib.suppress(OSError, ValueError):
            for line in self.lines:
                yield json.loads(line)

    def close(self) -> None:
        self.lines.close()
        self.connection.close()


def listen(host: str) -> socket.socket:
    if host or not socket.has_dualstack_ipv6():
        return socket.create_server((host, 0))
    family = socket.AF_INET6
    return socket.create_server(("", 0), family=family, dualstack_ipv6=True)


def _keep_alive(connection: socket.socket) -> None:
    """The system asks an idle peer's system whether it lives: no thread need run."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_NODELAY": 1,
        "TCP_KEEPIDLE": SILENCE // 2,
        "TCP_KEEPINTVL": 1,
        "TCP_KEEPCNT": SILENCE // 2,
        "TCP_USER_TIMEOUT": 1000 * SILENCE,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # not every system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
