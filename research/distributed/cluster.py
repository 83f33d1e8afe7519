"""Connects the processes of a run, and exits if they do not all connect."""

import contextlib
import ctypes
import json
import signal
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

import jax

from research.distributed.failure_detector import (
    KILLED,
    NEWS_TIMEOUT_S,
    Address,
    ConnectedPeers,
    Hub,
)
from research.distributed.peers import Peers, exit_with_error
from research.distributed.processes import FLAGS, Cluster
from research.errors import UserError

HEARTBEAT_TIMEOUT_S = 30
"""Seconds after which JAX gives up a silent process; `Peers` notices it earlier."""

HUB_KEY = "palimpsest/hub"
"""Under which the hub's address stands in JAX's key-value store."""

_signal_handlers: list[object] = []
"""Keeps the ctypes callbacks alive, to which C code holds no reference."""


def join_cluster(cluster: Cluster, *, timeout_s: int, lost_exit_code: int) -> Peers:
    """Connects the processes of a run; afterwards JAX knows the devices of all.

    Args:
      cluster: as `processes.find_cluster` returns it.
      timeout_s: seconds until all processes have to be there.
      lost_exit_code: exit code of a process that lost another, or waited in vain.

    Raises:
      UserError: the environment does not give what JAX needs to know.
    """
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.config.update("jax_enable_preemption_service", False)  # `Peers` does
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
    return ConnectedPeers(index, num_processes, address, lost_exit_code=lost_exit_code)


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
