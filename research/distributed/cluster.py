"""Connects the processes of a run, and exits if they do not all connect."""

import contextlib
import ctypes
import ipaddress
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

import jax
from jax._src import clusters, distributed  # neither has a public name

from research.contract.errors import UserError
from research.distributed.failure_detector import (
    HEARTBEAT_TIMEOUT_S,
    KILLED,
    NEWS_TIMEOUT_S,
    ConnectedPeers,
)
from research.distributed.peers import Peers, exit_with_error
from research.distributed.processes import FLAGS, Cluster

NOT_CONNECTED = "not all processes have connected"

_signal_handlers: list[object] = []
"""Keeps the ctypes callbacks alive, to which C code holds no reference."""


def join_cluster(cluster: Cluster, *, timeout_s: int, lost_exit_code: int) -> Peers:
    """Connects the processes of a run; afterwards JAX knows the devices of all.

    Args:
      cluster: as `processes.find_cluster` returns it.
      timeout_s: seconds until all processes have to be there.
      lost_exit_code: exit code of a process that lost another, or waited in vain.

    Raises:
      UserError: the environment does not give what JAX needs to know, or process 0
        cannot listen.
    """
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # `Peers` does
    jax.config.update("jax_enable_recoverability", True)  # `ConnectedPeers` exits
    with _exit_unless_connected(timeout_s, cluster, lost_exit_code):
        try:
            jax.distributed.initialize(
                *cluster,
                cluster_detection_method="deactivate" if cluster.coordinator else None,
                coordinator_bind_address=_bind_address(cluster, timeout_s),
                initialization_timeout=timeout_s + 60,
                heartbeat_timeout_seconds=HEARTBEAT_TIMEOUT_S,
                shutdown_timeout_seconds=HEARTBEAT_TIMEOUT_S,
            )
        except (RuntimeError, ValueError, OSError) as error:
            if distributed.global_state.client:  # found, but one has ended since
                raise
            reason = " ".join(str(error).split())[:300]
            raise UserError(
                f"the other processes were not found ({reason}); name them by {FLAGS}"
            ) from error
        index, num_processes = jax.process_index(), jax.process_count()
        if num_processes == 1:
            return Peers(lost_exit_code=lost_exit_code)
        client = distributed.global_state.client
        return ConnectedPeers(
            client, index, num_processes, lost_exit_code=lost_exit_code
        )


def _bind_address(cluster: Cluster, timeout_s: int) -> str | None:
    """Where the coordinator listens in process 0: at its own address alone.

    None, all interfaces, if the machine knows its name only as a loopback address, as
    Debian's /etc/hosts does, or if the environment variable of JAX says where.
    """
    find = clusters.ClusterEnv.auto_detect_unset_distributed_params
    address = cluster.coordinator or os.environ.get("JAX_COORDINATOR_ADDRESS")
    address = address or find(*cluster, None, None, timeout_s)[0]
    if not address or "JAX_COORDINATOR_BIND_ADDRESS" in os.environ:
        return None
    host = address.rpartition(":")[0].strip("[]")
    found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    is_local = all(ipaddress.ip_address(ip.split("%")[0]).is_loopback for ip in found)
    return None if is_local and host != "localhost" and host not in found else address


@contextlib.contextmanager
def _exit_unless_connected(
    timeout_s: int, cluster: Cluster, exit_code: int
) -> Iterator[None]:
    """Exits with one line if the other processes do not connect, or one of them ends.

    JAX's client aborts the process where it loses process 0. On SIGABRT, exit with that
    code instead; later wait for the failure detector, which exits with its own. If
    nothing comes from it, the abort proceeds.
    """

    def give_up(reason: str) -> NoReturn:
        where = f" at {cluster.coordinator}" if cluster.coordinator else ""
        exit_with_error(exit_code, f"{NOT_CONNECTED}{where}{reason}")

    late = f" within {timeout_s} s; see the logs of the others, or raise --wait"
    timer = threading.Timer(timeout_s, give_up, [late])
    timer.daemon = True
    ended = threading.Event()

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def on_abort(_: int) -> None:
        if not ended.is_set():
            give_up(f": one {KILLED}")
        time.sleep(NEWS_TIMEOUT_S)

    _signal_handlers.append(on_abort)
    ctypes.CDLL(None).signal(int(signal.SIGABRT), on_abort)
    timer.start()
    try:
        yield
    except jax.errors.JaxRuntimeError:
        give_up(f": one {KILLED}")
    finally:
        ended.set()
        timer.cancel()
