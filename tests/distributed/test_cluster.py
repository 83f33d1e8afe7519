"""The processes of a run connect; one that dies meanwhile is named."""

import signal
import socket
import subprocess
import sys

import pytest

LOST, DEAD = 75, -signal.SIGKILL

PROCESS = """
import os, sys, time
from research.distributed import cluster, failure_detector, processes
index, port = int(sys.argv[1]), sys.argv[2]
connect = cluster.ConnectedPeers
def die(*_, **__): os.kill(os.getpid(), 9)
exec(sys.argv[3])
place = processes.Cluster("localhost:" + port, 2, index)
peers = cluster.join_cluster(place, timeout_s=60, lost_exit_code=75)
exec(sys.argv[4])
time.sleep(60)
"""
SHORT_TIMEOUT = "failure_detector.CONNECT_TIMEOUT_S = 3"
SLOW_DETECTOR = """
exit_at_once = failure_detector.exit_with_error
def exit_later(*args):
    time.sleep(1)
    exit_at_once(*args)
failure_detector.exit_with_error = exit_later
"""


@pytest.mark.parametrize(
    ("before", "after", "codes", "words"),
    [
        (f"{SHORT_TIMEOUT}; cluster.Hub = index or die", "",
         [DEAD, LOST], "one was killed"),
        (f"{SHORT_TIMEOUT}; cluster.ConnectedPeers = index and die or connect", "",
         [LOST, DEAD], "process 1 was killed"),
        (SLOW_DETECTOR, "index or die()", [DEAD, LOST], "process 0 on"),
        ("", "index and os.abort()", [LOST, -signal.SIGABRT], "process 1 on"),
    ],
    ids=["before the hub", "before it connects", "JAX notices first", "an abort"],
)  # fmt: skip
def test_a_process_that_dies_is_named_and_the_other_exits(before, after, codes, words):
    with socket.create_server(("localhost", 0)) as server:
        port = str(server.getsockname()[1])
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(index), port, before, after],
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(2)
    ]
    errors = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == codes, errors
    survivor = errors[codes.index(LOST)]
    assert any(
        line.startswith("error: ") and words in line for line in survivor.splitlines()
    ), survivor
