"""The processes of a run are found in its flags and its environment."""

import pytest

from research.contract.errors import UserError
from research.distributed import processes

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
def test_a_cluster_is_found_in_the_environment(environment, several):
    cluster = processes.find_cluster(environment=environment)
    assert cluster == (processes.Cluster(None, None, None) if several else None)


def test_the_environment_gives_what_the_flags_do_not():
    def find(*flags, **environment):
        return processes.find_cluster(*flags, environment=environment)

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
        processes.find_cluster(*flags, environment={})


def test_open_mpi_without_an_address_is_refused():
    with pytest.raises(UserError, match="add --coordinator"):
        processes.find_cluster(environment=OMPI)


def test_the_kubernetes_package_finds_the_other_pods(monkeypatch):
    pod = {"JOB_COMPLETION_INDEX": "1", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    monkeypatch.setattr(processes.importlib.util, "find_spec", lambda name: object())
    assert processes.find_cluster(environment=pod) == (None, None, None)
