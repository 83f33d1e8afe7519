"""The Ray actors that run one task, on one host or on several that run together.

They are sent to the cluster whole, as code: machines there need Ray and this program
where the commands are to run, and nothing of this process.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

NAMESPACE = "palimpsest"
FINISHED = (0, 4)
"""Exit codes of an attempt after which there is no other: done, or given up."""
PAUSE = 2.0
"""Seconds between two attempts."""
MERCY = 120.0
"""Seconds for a command to save itself, or to notice that a peer is lost."""


class Order(NamedTuple):
    """What is to run: plain values, which any machine can read."""

    name: str  # of the actor that runs it
    words: list[str]  # `launch.backends.run_attempt` with its flags, "--", the command
    folder: str  # where the command runs; "": wherever Ray puts it
    hosts: int
    resources: dict[str, float]  # of each host; CPU and GPU among them
    slice: tuple[str, str] | None  # TPU version and topology


class Host:
    """A place that runs one process of an attempt after the other."""

    def __init__(self, folder: str):
        if folder:
            os.chdir(folder)
        self.job: subprocess.Popen | None = None
        self.stopped = False

    def address(self) -> str:
        """A host and port on which process 0 can listen."""
        with socket.socket() as found:
            found.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{found.getsockname()[1]}"

    def run(self, words: Sequence[str]) -> int:
        """Runs one process to its end; returns its exit code."""
        if self.stopped:
            return FINISHED[-1]
        words = [sys.executable, *words[1:]]
        self.job = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        return self.job.wait()

    def stop(self) -> None:
        """Asks what runs to save itself, and waits for it."""
        self.stopped = True
        if self.job and self.job.poll() is None:
            self.job.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.job.wait(MERCY)


class Leader(Host):
    """Runs a task until it is done or given up, then ends itself.

    Ray starts it again elsewhere when its machine dies, and so the task goes on. With
    one host the task runs here; several are a placement group of its own, made anew
    for each attempt, whose hosts die with this.
    """

    def __init__(self, order: Order):
        super().__init__(order.folder)
        self.order = order
        self.gang: list[Any] = []
        threading.Thread(target=self._live, daemon=True).start()

    def stop(self) -> None:
        super().stop()
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get([host.stop.remote() for host in self.gang])

    def _live(self) -> None:
        alone = self.order.hosts == 1 and not self.order.slice
        while True:
            code = self.run(self._words()) if alone else self._together()
            if self.stopped or code in FINISHED:
                break
            time.sleep(PAUSE)
        this = ray.get_actor(self.order.name, NAMESPACE)
        ray.kill(this, no_restart=True)

    def _words(self, rank: int = 0, attempt: str = "", address: str = "") -> list[str]:
        """The command of one process of an attempt."""
        cut = self.order.words.index("--")
        words = [*self.order.words[:cut], "--bound"]
        if attempt:
            words += [f"--attempt={attempt}", f"--rank={rank}"]
        words += self.order.words[cut:]
        if self.order.hosts > 1:
            words += [f"--coordinator={address}", f"--process_id={rank}"]
            words += [f"--num_processes={self.order.hosts}"]
        return words

    def _together(self) -> int:
        """One attempt on several hosts; returns the first exit code that says why."""
        group, leave = self._reserve()
        try:
            self.gang = [
                self._host(group, number) for number in range(self.order.hosts)
            ]
            address = ray.get(self.gang[0].address.remote())
            attempt = f"{time.time_ns()}"
            running = [
                host.run.remote(self._words(rank, attempt, address))
                for rank, host in enumerate(self.gang)
            ]
            return _first_fault(running)
        except ray.exceptions.RayError:  # a host was lost before it ran anything
            return 1
        finally:
            for host in self.gang:
                ray.kill(host)
            self.gang = []
            leave()

    def _reserve(self) -> tuple[Any, Any]:
        """A placement group, a host a bundle, and what gives it back."""
        if self.order.slice:
            from ray.util.tpu import slice_placement_group

            version, topology = self.order.slice
            found = slice_placement_group(topology, version)
            ray.get(found.placement_group.ready())
            return found.placement_group, found.shutdown
        bundles = [dict(self.order.resources) for _ in range(self.order.hosts)]
        group = placement_group(bundles, strategy="STRICT_SPREAD")
        ray.get(group.ready())
        return group, lambda: remove_placement_group(group)

    def _host(self, group: Any, number: int) -> Any:
        """The actor that is a host of a group."""
        needs = dict(self.order.resources)
        place = PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=number
        )
        options = {
            "num_cpus": 0 if self.order.slice else needs.pop("CPU"),
            "num_gpus": needs.pop("GPU", 0),
            "resources": needs,
            "max_concurrency": 2,
            "scheduling_strategy": place,
        }
        return ray.remote(Host).options(**options).remote(self.order.folder)


def _first_fault(running: list[Any]) -> int:
    """Waits for the processes of an attempt; one that fails leaves the rest a while."""
    code = 0
    while running and not code:
        (ended, *_), running = ray.wait(running)
        try:
            code = ray.get(ended)
        except ray.exceptions.RayError:  # its machine is gone
            code = 1
    if running:
        ray.wait(running, num_returns=len(running), timeout=MERCY)
    return code
