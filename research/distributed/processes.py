"""The processes of a run: found, connected, and made to agree.

A process is given the others by flags, or finds them in its environment.
"""

import contextlib
import ctypes
import glob
import hashlib
import importlib.util
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple, NoReturn

import jax
import numpy as np
from jax.experimental import multihost_utils

from research.distributed.failure_detector import (
    KILLED,
    NEWS_TIMEOUT_S,
    Address,
    Hub,
    Peers,
    exit_with_error,
)
from research.errors import UserError

HEARTBEAT_TIMEOUT_S = 30
"""Seconds after which JAX gives up a silent process; `Peers` notices it earlier."""

FLAGS = "--coordinator=HOST:PORT --num_processes=N --process_id=I"
HUB_KEY = "palimpsest/hub"
"""Under which the hub's address stands in JAX's key-value store."""

_signal_handlers: list[object] = []
"""Keeps the ctypes callbacks alive, to which C code holds no reference."""


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
            f"--num_processes={num_processes} --process_id={process_id}: ids run from "
            "0 to the number of processes less one"
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


def join_cluster(
    cluster: Cluster | None, *, timeout_s: int, lost_exit_code: int
) -> Peers:
    """Connects the processes of a run; afterwards JAX knows the devices of all.

    Args:
      cluster: as `find_cluster` returns it.
      timeout_s: seconds until all processes have to be there.
      lost_exit_code: exit code of a process that lost another, or waited in vain.

    Raises:
      UserError: the environment does not give what JAX needs to know.
    """
    if cluster is None:
        return Peers(lost_exit_code=lost_exit_code)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # `Peers` does this
    address = cluster.coordinator
    is_local = address and address.rpartition(":")[0] == "localhost"
    with _exit_unless_connected(timeout_s, cluster, lost_exit_code):
        try:
            jax.distributed.initialize(
                *cluster,
                cluster_detection_method="deactivate" if address else None,
                coordinator_bind_address=address if is_local else None,
                initialization_timeout=timeout_s + 60,
                heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT_S,
                shutdown_timeout_seconds=HEARTBEAT_TIMEOUT_S,
            )
        except (RuntimeError, ValueError, OSError) as error:
            reason = " ".join(str(error).split())[:300]
            raise UserError(
                f"the other processes were not found ({reason}); name them by {FLAGS}"
            ) from error
        return _connect_peers(timeout_s, lost_exit_code)


def _connect_peers(timeout_s: int, lost_exit_code: int) -> Peers:
    """Starts the hub in process 0; the others get its address from there."""
    index, num_processes = jax.process_index(), jax.process_count()
    if num_processes == 1:
        return Peers(lost_exit_code=lost_exit_code)
    from jax._src import distributed  # its key-value store has no public name

    state = distributed.global_state
    if index == 0:
        host = state.coordinator_address.rpartition(":")[0].strip("[]")
        hub = Hub(num_processes, host, lost_exit_code=lost_exit_code)
        address = hub.address
        state.client.key_value_set(HUB_KEY, json.dumps(address))
    else:
        value = state.client.blocking_key_value_get(HUB_KEY, 1000 * timeout_s)
        address = Address(*json.loads(value))
    return Peers(index, num_processes, address, lost_exit_code=lost_exit_code)


@contextlib.contextmanager
def _exit_unless_connected(
    timeout_s: int, cluster: Cluster, exit_code: int
) -> Iterator[None]:
    """Exits with one line if the other processes do not connect, or one of them ends.

    JAX's client aborts the process where it notices the end of another one before
    `Peers` does. On SIGABRT, from here on, wait for the failure detector, which exits
    with its code; without news from it the abort proceeds.
    """

    def give_up(reason: str) -> NoReturn:
        where = f" at {cluster.coordinator}" if cluster.coordinator else ""
        exit_with_error(exit_code, f"not all processes have connected{where}{reason}")

    late = f" within {timeout_s} s; see the logs of the others, or raise --wait"
    timer = threading.Timer(timeout_s, give_up, [late])
    timer.daemon = True

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def on_abort(_: int) -> None:
        time.sleep(NEWS_TIMEOUT_S)
        if timer.is_alive():
            give_up(f": one {KILLED}")

    _signal_handlers.append(on_abort)
    ctypes.CDLL(None).signal(int(signal.SIGABRT), on_abort)
    timer.start()
    try:
        yield
    except jax.errors.JaxRuntimeError:
        give_up(f": one {KILLED}")
    finally:
        timer.cancel()


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
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def print_from_process_0(line: str) -> None:
    """Prints a line for the user to stderr, once per run."""
    if jax.process_index() == 0:
        print(line, file=sys.stderr, flush=True)


def _digest(value: str) -> np.ndarray:
    digest = hashlib.blake2b(value.encode(), digest_size=16).digest()
    return np.frombuffer(digest, np.uint8)
