"""When one process of a run ends, the others exit and print the reason."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from research.distributed import failure_detector, json_socket

LOST_EXIT_CODE, TIMEOUT_S = 75, 10.0

PROCESS = """
import json, sys, time
from research.distributed.failure_detector import Address, ConnectedPeers, Hub
from research.distributed.peers import Peers
index, count, address = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
peers = Peers(lost_exit_code=75)
if index == 0:
    address = Hub(count, "localhost", lost_exit_code=75).address
    print(json.dumps(address), flush=True)
if count > 1:
    peers = ConnectedPeers(index, count, Address(*address), lost_exit_code=75)
def say(word): print(word, flush=True)
with peers.handle_sigterm():
    say("connected")
    try:
        exec(sys.argv[4])
    except Exception as error:
        peers.announce_failure(2, str(error), await_cause=False)
        sys.exit(2)
"""
WAIT = "time.sleep(60)"
STEPS = """
for done in range(10**6):
    if peers.should_stop():
        say(done)
        peers.leave()
        sys.exit(75)
    time.sleep(0.001 * (1 + index))
"""


class Processes:
    """Connected processes, each of which runs some code."""

    def __init__(self, *codes):
        self.processes, address = [], "null"
        for index, code in enumerate(codes):
            arguments = [str(index), str(len(codes)), address, code]
            process = subprocess.Popen(
                [sys.executable, "-c", PROCESS, *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            if index == 0:
                address = process.stdout.readline()
            self.processes.append(process)
        for process in self.processes:
            assert process.stdout.readline() == "connected\n"

    def end(self):
        """Exit codes, stdout and stderr of all; they must end within TIMEOUT_S."""
        start = time.monotonic()
        output = [process.communicate(timeout=TIMEOUT_S) for process in self.processes]
        assert time.monotonic() - start < TIMEOUT_S
        codes = [process.returncode for process in self.processes]
        return codes, [out for out, _ in output], [err for _, err in output]


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_when_one_process_is_killed_the_others_exit(victim):
    processes = Processes(WAIT, WAIT, WAIT)
    processes.processes[victim].kill()
    codes, _, errors = processes.end()
    expected = [LOST_EXIT_CODE] * 3
    expected[victim] = -signal.SIGKILL
    assert codes == expected
    for index, line in enumerate(errors):
        if index != victim:
            assert line.startswith(f"error: process {victim} on ")
            assert line.endswith("was killed, or its machine is gone\n")


@pytest.mark.parametrize("first", [0, 2])
def test_an_error_ends_all_processes_with_its_code(first):
    codes = [WAIT] * 3
    codes[first] = "time.sleep(1); raise ValueError('data.corpus: no such folder')"
    codes, _, errors = Processes(*codes).end()
    assert codes == [2, 2, 2]
    errors.pop(first)
    for line in errors:
        assert line.startswith(f"error: process {first} on ")
        assert line.endswith("ended: data.corpus: no such folder\n")


def test_a_hub_that_cannot_be_reached_counts_as_killed():
    address = json.dumps(["127.0.0.1", 1, "token", "there"])
    command = [sys.executable, "-c", PROCESS, "1", "2", address, WAIT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == LOST_EXIT_CODE
    assert done.stderr.startswith("error: process 0 on there was killed")


SLOW_HUB = """
import time
from research.distributed.failure_detector import ConnectedPeers, Hub
serve = Hub._serve
Hub._serve = lambda *args: (time.sleep(0.5), serve(*args))
hub = Hub(2, "localhost", lost_exit_code=75)
ConnectedPeers(1, 2, hub.address, lost_exit_code=75)
print(*hub.sockets, flush=True)
"""


def test_a_process_waits_until_the_hub_knows_it():
    """Otherwise a message to all known processes would miss it."""
    command = [sys.executable, "-c", SLOW_HUB]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.stdout == "1\n", done.stderr


def test_on_sigterm_all_stop_after_the_same_step():
    processes = Processes(STEPS, STEPS, STEPS)
    time.sleep(0.3)
    processes.processes[1].terminate()
    codes, steps, _ = processes.end()
    assert codes == [LOST_EXIT_CODE] * 3
    assert len(set(steps)) == 1 and int(steps[0]) > 0


def test_on_sigterm_before_the_first_step_all_exit_at_once():
    processes = Processes(STEPS, WAIT)
    processes.processes[0].terminate()
    codes, _, errors = processes.end()
    assert codes == [LOST_EXIT_CODE] * 2
    assert all("SIGTERM before the first step" in line for line in errors)


def test_a_single_process_stops_on_sigterm_too():
    processes = Processes(STEPS)
    time.sleep(0.1)
    processes.processes[0].terminate()
    codes, steps, _ = processes.end()
    assert codes == [LOST_EXIT_CODE] and int(steps[0]) > 0
    processes = Processes(WAIT)
    processes.processes[0].terminate()
    assert processes.end()[0] == [LOST_EXIT_CODE]


def test_a_process_that_has_left_may_exit():
    leave = "time.sleep(index / 4); peers.leave(); say('left')"
    codes, output, errors = Processes(leave, leave, leave).end()
    assert codes == [0, 0, 0] and output == ["left\n"] * 3 and errors == [""] * 3


def test_strangers_neither_stop_the_hub_nor_fill_its_memory(monkeypatch):
    monkeypatch.setattr(json_socket, "FIRST_MESSAGE_TIMEOUT_S", 0.5)
    errors = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    address = failure_detector.Hub(2, "localhost", lost_exit_code=75).address

    def connect():
        return socket.create_connection(address[:2], timeout=TIMEOUT_S)

    idle = [connect() for _ in range(2 * failure_detector.MAX_UNKNOWN)]
    lines = [b"[1]\n", b"{}\n", b"\xff\n", b"[" * 4000 + b"\n", b"x" * 2**20]
    for token, host in (([1], "x"), (address.token, "too long" * 999)):
        hello = {"token": token, "index": 0, "host": host}
        lines.append(json.dumps(hello).encode() + b"\n")
    for line in lines:
        with connect() as stranger:
            with contextlib.suppress(OSError):  # closed while it sends
                stranger.sendall(line)
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
    with connect() as known:
        hello = {"token": address.token, "index": 1, "host": "here"}
        known.sendall(json.dumps(hello).encode() + b"\n")
        assert json.loads(known.makefile().readline()) == {"welcome": True}
    assert all(each.recv(1) == b"" for each in idle)
    assert not errors
