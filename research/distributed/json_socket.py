"""A TCP connection that carries JSON objects."""

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

DEAD_PEER_TIMEOUT_S = 10
"""Seconds after which the system gives up a machine that no longer answers."""


FIRST_MESSAGE_TIMEOUT_S = 10.0
"""Seconds within which the first message of a connection has to be complete."""

MAX_FIRST_BYTES = 4096
"""Length of the first message, which comes before its sender is known."""


class JsonSocket:
    """A connection that carries JSON objects, one per line."""

    def __init__(self, connection: socket.socket):
        connection.settimeout(None)
        _enable_keepalive(connection)
        self.connection = connection
        self.lines = connection.makefile("r", encoding="utf-8")
        self.lock = threading.Lock()

    def send(self, **message: Any) -> None:
        """Sends a message; does nothing if the connection is closed.

        The reader of this connection finds out that it is closed.
        """
        line = (json.dumps(message) + "\n").encode()
        with self.lock, contextlib.suppress(OSError):
            self.connection.sendall(line)

    def receive_first(self) -> dict[str, Any]:
        """The first message; {} if it is late, too long or no JSON object."""
        deadline, data = time.monotonic() + FIRST_MESSAGE_TIMEOUT_S, b""
        try:
            while not data.endswith(b"\n"):
                self.connection.settimeout(max(0.01, deadline - time.monotonic()))
                part = self.connection.recv(MAX_FIRST_BYTES - len(data))
                if not part:
                    return {}
                data += part
            self.connection.settimeout(None)
            message = json.loads(data)
        except (OSError, ValueError, RecursionError):
            return {}
        return message if isinstance(message, dict) else {}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The received messages, until the connection is closed."""
        with contextlib.suppress(OSError, ValueError):
            for line in self.lines:
                yield json.loads(line)

    def close(self) -> None:
        self.lines.close()
        self.connection.close()


def listen(host: str) -> socket.socket:
    """A listening socket on a free port; host "": on all interfaces, IPv4 and IPv6."""
    if host or not socket.has_dualstack_ipv6():
        return socket.create_server((host, 0))
    family = socket.AF_INET6
    return socket.create_server(("", 0), family=family, dualstack_ipv6=True)


def _enable_keepalive(connection: socket.socket) -> None:
    """The operating system probes an idle peer, so that no thread has to."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_NODELAY": 1,
        "TCP_KEEPIDLE": DEAD_PEER_TIMEOUT_S // 2,
        "TCP_KEEPINTVL": 1,
        "TCP_KEEPCNT": DEAD_PEER_TIMEOUT_S // 2,
        "TCP_USER_TIMEOUT": 1000 * DEAD_PEER_TIMEOUT_S,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # not every system has all of them
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
