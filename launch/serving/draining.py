"""A uvicorn server that, when it is to end, first answers what it was asked."""

import asyncio
import socket
import time

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

ANSWER_S, CLIENT_S = 35.0, 3.0
"""Seconds after the signal to end: for responses that are being made; and for clients
that are to send the rest of a request, or to read a response."""
TICK_S = 0.05


class DrainingServer(uvicorn.Server):
    """Ends when the connections that it has accepted have their responses.

    uvicorn's own end closes connections whose request it has not read, with those that
    wait to be accepted: their clients get a reset. It waits equally long for an answer
    and for a client that sends half of a request.
    """

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for _ in range(2):  # each turn of the loop accepts all that wait
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        await asyncio.sleep(TICK_S)  # reads what these have sent
        begin = time.monotonic()
        waits_since: dict[H11Protocol, float] = {}
        while self.server_state.connections and not self.force_exit:
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                assert isinstance(connection, H11Protocol)
                if not _waits_for_client(connection):
                    waits_since.pop(connection, None)
                elif now - waits_since.setdefault(connection, now) > CLIENT_S:
                    connection.transport.abort()
                if not _is_being_sent(connection):
                    connection.shutdown()  # now, or when its response is complete
            if now - begin > ANSWER_S:
                break
            await asyncio.sleep(TICK_S)
        await super().shutdown(sockets)


def _is_being_sent(connection: H11Protocol) -> bool:
    """Whether a connection's first or next request has not arrived, or in part."""
    cycle = connection.cycle
    if cycle is None:
        return True
    return cycle.response_complete and bool(connection.conn.trailing_data[0])


def _waits_for_client(connection: H11Protocol) -> bool:
    """Whether the next step is the client's: to send a request, or read a response."""
    cycle = connection.cycle
    return cycle is None or cycle.more_body or cycle.response_started
