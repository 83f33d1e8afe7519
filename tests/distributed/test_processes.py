"""A run's processes find each other, and one that dies meanwhile is no riddle."""

import signal
import socket
import subprocess
import sys

import pytest

from research.distributed import processes
from research.errors import UserError

LOST, DEAD = 75, -signal.SIGKILL

PROCESS = """
import os, sys, time
from research.distributed import failure_detector as peers, processes as cluster
index, port = int(sys.argv[1]), sys.argv[2]
def die(*_, **__): os.kill(os.getpid(), 9)
exec(sys.argv[3])
place = cluster.Place("localhost:" + port, 2, index)
peers = cluster.join(place, wait=60, lost=75)
exec(sys.argv[4])
time.sleep(60)
"""
SOON = "peers.MEETING = 3"
LATE = """
at_once = peers.Peers._die
def late(*words):
    time.sleep(1)
    at_once(*words)
peers.Peers._die = late
"""


@pytest.mark.parametrize(
    ("before", "after", "codes", "words"),
    [
        (f"{SOON}; cluster.Hub = index or die", "", [DEAD, LOST], "one was killed"),
        (f"{SOON}; cluster.Peers = index and die or cluster.Peers", "",
         [LOST, DEAD], "process 1 was killed"),
        (LATE, "index or die()", [DEAD, LOST], "process 0 on"),
        ("", "index and os.abort()", [LOST, -signal.SIGABRT], "process 1 on"),
    ],
    ids=["before the hub", "before it reached the hub", "JAX hears first", "an abort"],
)  # fmt: skip
def test_one_that_dies_is_named_and_the_other_ends(before, after, codes, words):
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


SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
}
OMPI = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "3"}
ORTE = {"OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1:34911"}


@pytest.mark.parametrize(
    ("environment", "several"),
    [
        ({}, False),
        (SLURM, True),
        (SLURM | {"SLURM_NTASKS": "1"}, False),
        ({"SLURM_JOB_ID": "7", "SLURM_NTASKS": "8"}, False),  # a batch script's own
        (OMPI | ORTE, True),
        (OMPI | ORTE | {"OMPI_COMM_WORLD_SIZE": "1"}, False),
        ({"TPU_WORKER_HOSTNAMES": "t0,t1", "TPU_WORKER_ID": "0"}, True),
        ({"TPU_WORKER_HOSTNAMES": "localhost"}, False),
        ({"MEGASCALE_NUM_SLICES": "2"}, True),
        ({"JOB_COMPLETION_INDEX": "1"}, False),  # kubernetes is not installed
    ],
)
def test_a_cluster_is_seen_in_the_environment(environment, several):
    place = processes.find(environment=environment)
    assert place == (processes.Place(None, None, None) if several else None)


def test_flags_come_first_and_the_environment_fills_in():
    def find(*flags, **environment):
        return processes.find(*flags, environment=environment)

    assert find("h:1234", 2, 1) == ("h:1234", 2, 1)
    assert find("h:1234", 2, 1, **OMPI, **ORTE) == ("h:1234", 2, 1)
    assert find("h:1234", **OMPI) == ("h:1234", 4, 3)
    assert find("h:1234", 3, JOB_COMPLETION_INDEX="2") == ("h:1234", 3, 2)
    assert find(None, 1, None, **SLURM) is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("h:1234", None, None), "all three"),
        (("h:1234", 2, None), "all three"),
        ((None, 2, 1), "all three"),
        ((None, None, 0), "all three"),
        (("h", 2, 1), "--coordinator=h: give HOST:PORT"),
        (("h:99999", 2, 1), "HOST:PORT"),
        (("h:1234", 2, 2), "--num_processes=2 --process_id=2"),
        (("h:1234", 2, -1), "--process_id=-1"),
        (("h:1234", 0, 0), "--num_processes=0"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags, words):
    with pytest.raises(UserError, match=words):
        processes.find(*flags, environment={})


def test_an_open_mpi_without_an_address_is_told():
    with pytest.raises(UserError, match="add --coordinator"):
        processes.find(environment=OMPI)


def test_the_kubernetes_package_finds_the_other_pods(monkeypatch):
    pod = {"JOB_COMPLETION_INDEX": "1", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    monkeypatch.setattr(processes.importlib.util, "find_spec", lambda name: object())
    assert processes.find(environment=pod) == (None, None, None)
