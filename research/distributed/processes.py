"""The processes of a run, found by themselves or told by flags, and joined."""

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

from research.distributed.failure_detector import GONE, HEARING, Address, Hub, Peers
from research.errors import UserError

HEARTBEAT = 30
"""Seconds without one, after which JAX gives a process up; `Peers` hears earlier."""

FLAGS = "--coordinator=HOST:PORT --num_processes=N --process_id=I"
KEY = "palimpsest/hub"

_handlers: list[object] = []
"""Of signals, in C, which holds no reference to them."""


class Place(NamedTuple):
    """What the flags or the environment say; None: JAX is to find out."""

    coordinator: str | None
    num_processes: int | None
    process_id: int | None


def find(
    coordinator: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Place | None:
    """This process's place among those of the run; None: it is alone.

    Args:
      coordinator: HOST:PORT of process 0, as all of them reach it.
      environment: tells what is not given, under Slurm, Open MPI, Cloud TPU, GKE and
        other Kubernetes.

    Raises:
      UserError: flags that do not go together.
    """
    if num_processes == 1 and process_id in (None, 0):
        return None
    if (coordinator, num_processes, process_id) == (None, None, None):
        return Place(None, None, None) if several(environment) else None
    told = _told(environment)
    if num_processes is None:
        num_processes = told.num_processes
    if process_id is None:
        process_id = told.process_id
    if not coordinator or num_processes is None or process_id is None:
        raise UserError(f"processes are told by all three of {FLAGS}, or found by none")
    host, _, port = coordinator.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise UserError(f"--coordinator={coordinator}: give HOST:PORT of process 0")
    if num_processes < 1 or not 0 <= process_id < num_processes:
        raise UserError(
            f"--num_processes={num_processes} --process_id={process_id}: ids run from "
            "0 to the number of processes less one"
        )
    return Place(coordinator, num_processes, process_id)


def several(environment: Mapping[str, str]) -> bool:
    """Whether this process is one of several, in a way that JAX finds them by."""
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
            "Open MPI does not tell where process 0 is; add --coordinator=HOST:PORT"
        )
    if "JOB_COMPLETION_INDEX" in environment:
        pods = "KUBERNETES_SERVICE_HOST" in environment
        return pods and importlib.util.find_spec("kubernetes") is not None
    return not hosts and _on_cloud_tpu(environment)


def _on_cloud_tpu(environment: Mapping[str, str]) -> bool:
    """A TPU machine of Google's, whose metadata server knows the others, if any."""
    chips = glob.glob("/dev/accel[0-9]*") + glob.glob("/dev/vfio/[0-9]*")
    wanted = environment.get("JAX_PLATFORMS", "tpu").startswith("tpu")
    asks = "TPU_SKIP_MDS_QUERY" not in environment
    return bool(chips) and wanted and asks and bool(importlib.util.find_spec("libtpu"))


def _told(environment: Mapping[str, str]) -> Place:
    """What the environment says beside a coordinator."""
    for count, index in (
        ("SLURM_NTASKS", "SLURM_PROCID"),
        ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
        ("", "JOB_COMPLETION_INDEX"),
    ):
        if index in environment:
            total = int(environment[count]) if count in environment else None
            return Place(None, total, int(environment[index]))
    return Place(None, None, None)


def join(place: Place | None, *, wait: int, lost: int) -> Peers:
    """Joins the processes of a run; afterwards JAX knows the devices of all.

    Args:
      place: of this process, as `find` says.
      wait: seconds for all of them to come.
      lost: exit code of a process that lost another, or waited in vain.

    Raises:
      UserError: the environment does not tell what JAX needs to know.
    """
    if place is None:
        return Peers(lost=lost)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # `Peers` agrees
    told = place.coordinator is not None
    local = place.coordinator and place.coordinator.rpartition(":")[0] == "localhost"
    bind = place.coordinator if local else None
    with _deadline(wait, place, lost):
        try:
            jax.distributed.initialize(
                *place,
                cluster_detection_method="deactivate" if told else None,
                coordinator_bind_address=bind,
                initialization_timeout=wait + 60,
                heartbeat_timeout_seconds=HEARTBEAT,
                shutdown_timeout_seconds=HEARTBEAT,
            )
        except (RuntimeError, ValueError, OSError) as error:
            reason = " ".join(str(error).split())[:300]
            raise UserError(
                f"the other processes were not found ({reason}); name them by {FLAGS}"
            ) from error
        return _connect(jax.process_index(), jax.process_count(), wait, lost)


def _connect(index: int, count: int, wait: int, lost: int) -> Peers:
    """Opens the hub, or finds it where process 0 says it is."""
    if count == 1:
        return Peers(lost=lost)
    from jax._src import distributed  # its store of keys has no public name

    state = distributed.global_state
    if index == 0:
        host = state.coordinator_address.rpartition(":")[0].strip("[]")
        address = Hub(count, host, lost=lost).address
        state.client.key_value_set(KEY, json.dumps(address))
    else:
        found = state.client.blocking_key_value_get(KEY, 1000 * wait)
        address = Address(*json.loads(found))
    return Peers(index, count, address, lost=lost)


@contextlib.contextmanager
def _deadline(seconds: int, place: Place, lost: int) -> Iterator[None]:
    """Ends the process, in a line, if the others have not come, or one has gone.

    JAX's client aborts the process where it hears of another's end before `Peers` do.
    From here on an abort waits for their news, which ends the process by its right
    code; without any it goes on.
    """

    def give_up(why: str) -> NoReturn:
        where = f" at {place.coordinator}" if place.coordinator else ""
        line = f"error: not all processes have met{where}{why}"
        print(line, file=sys.stderr, flush=True)
        os._exit(lost)

    late = f" within {seconds} s; see the logs of the others, or give them more time "
    timer = threading.Timer(seconds, give_up, [late + "by --wait"])
    timer.daemon = True

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def aborted(_: int) -> None:
        time.sleep(HEARING)
        if timer.is_alive():
            give_up(f": one {GONE}")

    _handlers.append(aborted)
    ctypes.CDLL(None).signal(int(signal.SIGABRT), aborted)
    timer.start()
    try:
        yield
    except jax.errors.JaxRuntimeError:
        give_up(f": one {GONE}")
    finally:
        timer.cancel()


def agree(**values: str) -> None:
    """Checks that all processes have the same of everything; they wait for each other.

    Raises:
      UserError: names what differs, and where.
    """
    if jax.process_count() == 1:
        return
    mine = np.stack([_digest(value) for value in values.values()])
    theirs = np.asarray(multihost_utils.process_allgather(mine))
    for number, name in enumerate(values):
        others = np.flatnonzero((theirs[:, number] != theirs[0, number]).any(axis=1))
        if len(others):
            raise UserError(
                f"process {others[0]} has another {name} than process 0 "
                f"({len(others)} of {len(theirs)} processes differ); start all with "
                "the same command, code and files"
            )


def from_first(number: int) -> int:
    """The number that process 0 has; all wait for it."""
    if jax.process_count() == 1:
        return number
    return int(multihost_utils.broadcast_one_to_all(np.int32(number)))


def _digest(value: str) -> np.ndarray:
    digest = hashlib.blake2b(value.encode(), digest_size=16).digest()
    return np.frombuffer(digest, np.uint8)
