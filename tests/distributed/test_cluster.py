"""The processes of a run connect; one that dies meanwhile is named."""

import signal
import socket
import types

import jax
import pytest

from research.contract.errors import UserError
from research.distributed import cluster
from research.distributed.processes import Cluster
from tests.testing.connected_processes import (
    LOST_EXIT_CODE,
    Processes,
    run_together,
)

LOST, DEAD = LOST_EXIT_CODE, -signal.SIGKILL
WAIT = "time.sleep(60)"
CONNECT = """
def later(*_, **__): time.sleep(0.5) or die()  # JAX has connected the other by then
cluster.ConnectedPeers = {} or cluster.ConnectedPeers
"""


DEATHS = {
    "process 0 before it connects": (CONNECT.format("index == 0 and later"), WAIT),
    "before it connects": (CONNECT.format("index and die"), WAIT),
    "an abort": ("", f"index and os.abort(); {WAIT}"),
}
"""How a process dies -> what both execute before they connect, and then."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """ended(death) -> the processes, and their exit codes."""

    def call(before, after):
        def run(folder):
            processes = Processes(folder, after, after, before=before)
            return processes, processes.end(timeout=60)

        return run

    calls = {death: call(*codes) for death, codes in DEATHS.items()}
    return run_together(calls, tmp_path_factory.mktemp("deaths"))


@pytest.mark.parametrize(
    ("death", "expected", "words"),
    [
        ("process 0 before it connects", [DEAD, LOST], "one was killed"),
        ("before it connects", [LOST, DEAD], "process 1 was killed"),
        ("an abort", [LOST, -signal.SIGABRT], "process 1 on"),
    ],
)
def test_a_process_that_dies_is_named_and_the_other_exits(
    ended, death, expected, words
):
    processes, codes = ended(death)
    assert codes == expected
    [line] = processes.errors(codes.index(LOST))
    assert words in line


@pytest.mark.parametrize("found", [True, False])
def test_a_process_lost_while_jax_connects_is_no_mistake(monkeypatch, found):
    def initialize(*_, **__):
        monkeypatch.setattr(cluster.distributed.global_state, "client", found or None)
        raise jax.errors.JaxRuntimeError("UNAVAILABLE: Socket closed")

    def exit_with_error(code, line):
        raise SystemExit(f"{code} {line}")

    monkeypatch.setattr(jax.distributed, "initialize", initialize)
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    no_handler = types.SimpleNamespace(signal=lambda *_: None)
    monkeypatch.setattr(cluster.ctypes, "CDLL", lambda _: no_handler)
    monkeypatch.setattr(cluster, "exit_with_error", exit_with_error)
    error, words = (SystemExit, "75 .*killed") if found else (UserError, "not found")
    with pytest.raises(error, match=words):
        cluster.join_cluster(
            Cluster("localhost:1", 2, 1), timeout_s=60, lost_exit_code=75
        )


@pytest.mark.parametrize(
    ("host", "address", "expected"),
    [
        ("localhost", "127.0.0.1", "localhost:1234"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1:1234"),
        ("[::1]", "::1", "[::1]:1234"),
        ("node1", "10.0.0.5", "node1:1234"),
        ("node1", "127.0.1.1", None),  # Debian's own name in /etc/hosts
    ],
)
def test_the_coordinator_listens_at_its_own_address(
    monkeypatch, host, address, expected
):
    found = [(0, 0, 0, "", (address, 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: found)
    monkeypatch.delenv("JAX_COORDINATOR_BIND_ADDRESS", raising=False)
    place = Cluster(f"{host}:1234", 2, 0)
    assert cluster._bind_address(place, 60) == expected
    monkeypatch.setenv("JAX_COORDINATOR_BIND_ADDRESS", "[::]:1234")
    assert cluster._bind_address(place, 60) is None
