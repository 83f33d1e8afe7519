"""The processes of a run: found, and made to agree.

A process is given the others by flags, or finds them in its environment.
"""

import glob
import hashlib
import importlib.util
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils

from research.contract.errors import UserError

FLAGS = "--coordinator=HOST:PORT --num_processes=N --process_id=I"
"""The flags that name the others."""


class Cluster(NamedTuple):
    """Arguments of jax.distributed.initialize; None: JAX finds it out itself."""

    coordinator: str | None
    num_processes: int | None
    process_id: int | None


def find_cluster(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Cluster | None:
    """The processes that this one belongs to; None: it is alone.

    Args:
      coordinator: HOST:PORT of process 0, as all of them reach it.
      environment: gives what is None here, under Slurm, Open MPI, Cloud TPU, GKE and
        other Kubernetes.

    Raises:
      UserError: flags that do not go together.
    """
    if num_processes == 1 and process_id in (None, 0):
        return None
    if (coordinator, num_processes, process_id) == (None, None, None):
        several = _is_in_cluster(environment)
        return Cluster(None, None, None) if several else None
    known = _from_environment(environment)
    if num_processes is None:
        num_processes = known.num_processes
    if process_id is None:
        process_id = known.process_id
    if not coordinator or num_processes is None or process_id is None:
        raise UserError(
            f"several processes need all three of {FLAGS}, or none where the "
            "environment describes them"
        )
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UserError(f"--coordinator={coordinator}: give HOST:PORT of process 0")
    if num_processes < 1 or not 0 <= process_id < num_processes:
        raise UserError(
            f"--num_processes={num_processes} --process_id={process_id}: ids must be "
            "from 0 to the number of processes minus 1"
        )
    return Cluster(coordinator, num_processes, process_id)


def _is_in_cluster(environment: Mapping[str, str]) -> bool:
    """Whether this is one of several processes that JAX can find by itself."""
    hosts = environment.get(
        "TPU_PROCESS_ADDRESSES", environment.get("TPU_WORKER_HOSTNAMES", "")
    )
    if "," in hosts or int(environment.get("MEGASCALE_NUM_SLICES", 1)) > 1:
        return True
    if environment.get("SLURM_STEP_NODELIST"):
        return int(environment.get("SLURM_NTASKS", 1)) > 1
    if int(environment.get("OMPI_COMM_WORLD_SIZE", 1)) > 1:
        if "OMPI_MCA_orte_hnp_uri" in environment:
            return True
        raise UserError(
            "this Open MPI does not say where process 0 is; add --coordinator=HOST:PORT"
        )
    if "JOB_COMPLETION_INDEX" in environment:
        pods = "KUBERNETES_SERVICE_HOST" in environment
        return pods and importlib.util.find_spec("kubernetes") is not None
    return not hosts and _is_cloud_tpu(environment)


def _is_cloud_tpu(environment: Mapping[str, str]) -> bool:
    """Whether this is a Cloud TPU machine, whose metadata server knows the others."""
    chips = glob.glob("/dev/accel[0-9]*") + glob.glob("/dev/vfio/[0-9]*")
    uses_tpu = environment.get("JAX_PLATFORMS", "tpu").startswith("tpu")
    queries = "TPU_SKIP_MDS_QUERY" not in environment
    has_libtpu = bool(importlib.util.find_spec("libtpu"))
    return bool(chips) and uses_tpu and queries and has_libtpu


def _from_environment(environment: Mapping[str, str]) -> Cluster:
    """The number and the index of processes, where the environment has them."""
    for count, index in (
        ("SLURM_NTASKS", "SLURM_PROCID"),
        ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
        ("", "JOB_COMPLETION_INDEX"),
    ):
        if index in environment:
            total = int(environment[count]) if count in environment else None
            return Cluster(None, total, int(environment[index]))
    return Cluster(None, None, None)


def assert_equal_across_hosts(**values: str) -> None:
    """Checks that all processes have the same values; a barrier.

    Raises:
      UserError: names the value that differs, and a process where it does.
    """
    if jax.process_count() == 1:
        return
    own = np.stack([_digest(value) for value in values.values()])
    all_digests = np.asarray(multihost_utils.process_allgather(own))  # [processes, ...]
    for number, name in enumerate(values):
        digests = all_digests[:, number]
        others = np.flatnonzero((digests != digests[0]).any(axis=1))
        if len(others):
            raise UserError(
                f"process {others[0]} has another {name} than process 0 "
                f"({len(others)} of {len(digests)} processes differ); start all with "
                "the same command, code and files"
            )


def broadcast_from_process_0(number: int) -> int:
    """The int32 that process 0 has, in all processes; a barrier."""
    if jax.process_count() == 1:
        return number
    with jax.transfer_guard("allow"):  # also within a loop that disallows them
        return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def print_from_process_0(line: str) -> None:
    """Prints a line for the user to stderr, once per run."""
    if jax.process_index() == 0:
        print(line, file=sys.stderr, flush=True)


def _digest(value: str) -> np.ndarray:
    digest = hashlib.blake2b(value.encode(), digest_size=16).digest()
    return np.frombuffer(digest, np.uint8)
