"""The Ray actors that run a job, on one host or on several that run together.

Ray sends this module to the cluster by value: an actor's process needs Ray alone. Only
the command that it starts needs this program on its machine.
"""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

NAMESPACE = "palimpsest"
FINAL_EXIT_CODES = (0, 4)
"""Exit codes after which no attempt follows: done, or the retry budget is used up."""
RETRY_INTERVAL_S = 2.0
"""Seconds from the end of an attempt to the start of the next."""
STOP_TIMEOUT_S = 120.0
"""Seconds that a command has to save a checkpoint, or to notice a lost process."""


class JobSpec(NamedTuple):
    """What a job's actor runs, in plain values that need no module of this program."""

    name: str  # the actor's name
    command: list[str]  # `launch.backends.run_attempt` with its flags, "--", the job's
    folder: str  # to run in; "": the actor's working directory
    hosts: int
    resources: dict[str, float]  # of each host; CPU is among them
    slice: tuple[str, str] | None  # Ray's name of the TPU generation, and topology


class HostActor:
    """Runs processes of attempts on its host, one after the other."""

    def __init__(self, folder: str):
        if folder:
            os.chdir(folder)
        self.process: subprocess.Popen | None = None
        self.stopped = False

    def address(self) -> str:
        """HOST:PORT, a free port on which process 0 can listen."""
        with socket.socket() as listener:
            listener.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{listener.getsockname()[1]}"

    def run(self, command: Sequence[str]) -> int:
        """Runs a command to its end; returns its exit code."""
        if self.stopped:
            return FINAL_EXIT_CODES[-1]
        command = [sys.executable, *command[1:]]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        return self.process.wait()

    def stop(self) -> None:
        """Sends SIGTERM to the running command, and waits until it has ended."""
        self.stopped = True
        if self.process and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_TIMEOUT_S)


class JobActor(HostActor):
    """Makes attempts at a job until it is done or its budget is used up, then exits.

    Ray restarts the actor on another machine when its own dies, and the job resumes. A
    job of one host runs in this actor. A job of several runs in a `HostActor` for each,
    in a placement group that is made anew for each attempt and ends with this actor.
    """

    def __init__(self, spec: JobSpec):
        super().__init__(spec.folder)
        self.spec = spec
        self.host_actors: list[Any] = []
        threading.Thread(target=self._run_job, daemon=True).start()

    def stop(self) -> None:
        super().stop()
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get([host.stop.remote() for host in self.host_actors])

    def _run_job(self) -> None:
        single_host = self.spec.hosts == 1 and not self.spec.slice
        while True:
            code = self.run(self._command()) if single_host else self._run_on_hosts()
            if self.stopped or code in FINAL_EXIT_CODES:
                break
            time.sleep(RETRY_INTERVAL_S)
        this = ray.get_actor(self.spec.name, NAMESPACE)
        ray.kill(this, no_restart=True)

    def _command(
        self, rank: int = 0, attempt: str = "", address: str = ""
    ) -> list[str]:
        """The command of one process of an attempt."""
        separator = self.spec.command.index("--")
        command = [*self.spec.command[:separator], "--stop_with_parent"]
        if attempt:
            command += [f"--attempt={attempt}", f"--rank={rank}"]
        command += self.spec.command[separator:]
        if self.spec.hosts > 1:
            command += [f"--coordinator={address}", f"--process_id={rank}"]
            command += [f"--num_processes={self.spec.hosts}"]
        return command

    def _run_on_hosts(self) -> int:
        """One attempt on several hosts: the first exit code that is not 0, or 0."""
        group, release = self._reserve_hosts()
        try:
            self.host_actors = [
                self._start_host_actor(group, index) for index in range(self.spec.hosts)
            ]
            address = ray.get(self.host_actors[0].address.remote())
            attempt = f"{time.time_ns()}"
            running = [
                host.run.remote(self._command(rank, attempt, address))
                for rank, host in enumerate(self.host_actors)
            ]
            return _wait_for_processes(running)
        except ray.exceptions.RayError:  # a host was lost before it ran anything
            return 1
        finally:
            for host in self.host_actors:
                ray.kill(host)
            self.host_actors = []
            release()

    def _reserve_hosts(self) -> tuple[Any, Callable[[], None]]:
        """A placement group with a bundle for each host, and a function to end it."""
        if self.spec.slice:
            from ray.util.tpu import slice_placement_group

            generation, topology = self.spec.slice
            reserved = slice_placement_group(topology, generation)
            ray.get(reserved.placement_group.ready())
            return reserved.placement_group, reserved.shutdown
        bundles = [dict(self.spec.resources) for _ in range(self.spec.hosts)]
        group = placement_group(bundles, strategy="STRICT_SPREAD")
        ray.get(group.ready())
        return group, lambda: remove_placement_group(group)

    def _start_host_actor(self, group: Any, index: int) -> Any:
        """Starts the actor of a placement group's bundle."""
        resources = dict(self.spec.resources)
        strategy = PlacementGroupSchedulingStrategy(
            group, placement_group_bundle_index=index
        )
        options = {
            "num_cpus": 0 if self.spec.slice else resources.pop("CPU"),
            "num_gpus": resources.pop("GPU", 0),
            "resources": resources,
            "max_concurrency": 2,
            "scheduling_strategy": strategy,
        }
        return ray.remote(HostActor).options(**options).remote(self.spec.folder)


def _wait_for_processes(running: list[Any]) -> int:
    """The first exit code that is not 0, or 0.

    After a failure the other processes have STOP_TIMEOUT_S to end by themselves.
    """
    code = 0
    while running and not code:
        (ended, *_), running = ray.wait(running)
        try:
            code = ray.get(ended)
        except ray.exceptions.RayError:  # its machine was lost
            code = 1
    if running:
        ray.wait(running, num_returns=len(running), timeout=STOP_TIMEOUT_S)
    return code
