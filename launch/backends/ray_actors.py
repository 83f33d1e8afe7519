"""The Ray actors that run a job, on one host or on several that run together.

Ray sends this module to the cluster by value: an actor's process needs Ray alone. Only
the command that it starts needs this program on its machine.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

NAMESPACE = "palimpsest"
FINAL_EXIT_CODES = (0, 4)
"""Exit codes after which no attempt follows: done, or the retry budget is used up."""
NOT_STARTED, LOST = -1001, -1002
"""In place of an exit code: the process ended before it had a record, for example since
it cannot import this program or write the folder; its machine was lost."""
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
    retries: int
    preemptions: int
    log: str  # the job's log
    records: str  # the folder of the records of attempts
    lost_record: dict[str, Any]  # that of a process whose machine was lost, as JSON


class HostActor:
    """Runs processes of attempts on its host, one after the other."""

    def __init__(self, spec: JobSpec):
        if spec.folder:
            os.chdir(spec.folder)
        self.spec = spec
        self.process: subprocess.Popen | None = None
        self.stopped = False

    def address(self) -> str:
        """HOST:PORT, a free port on which process 0 can listen."""
        with socket.socket() as listener:
            listener.bind(("", 0))
            return f"{ray.util.get_node_ip_address()}:{listener.getsockname()[1]}"

    def run(self, attempt: str, rank: int = 0, address: str = "") -> int:
        """Runs a process of an attempt to its end.

        Returns:
          its exit code, or NOT_STARTED; then this has written the record in its place.
        """
        if self.stopped:
            return FINAL_EXIT_CODES[-1]
        reader, writer = os.pipe()
        command = self._command(attempt, rank, address, writer)
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=[writer]
        )
        os.close(writer)
        code = self.process.wait()
        has_record = os.read(reader, 1)
        os.close(reader)
        if has_record or code in FINAL_EXIT_CODES or self.stopped:
            return code
        code = 128 - code if code < 0 else code
        self.record(attempt, rank, exit_code=code)
        self.log(f"exit code {code} before the attempt began; Ray's log has its output")
        return NOT_STARTED

    def record(self, attempt: str, rank: int, **fields: Any) -> None:
        """Writes the record of a process that wrote none.

        It does if its folder can be written and is not in a bucket.
        """
        times = dict.fromkeys(("started", "heartbeat", "ended"), time.time())
        own = {"attempt": attempt, "rank": rank, "host": socket.gethostname()}
        record = self.spec.lost_record | own | times | fields
        path = os.path.join(self.spec.records, f"{attempt}.{rank}.json")
        with contextlib.suppress(OSError):
            if "://" not in path:
                os.makedirs(self.spec.records, exist_ok=True)
                with open(f"{path}.new", "w", encoding="utf-8") as file:
                    json.dump(record, file)
                os.replace(f"{path}.new", path)

    def log(self, line: str) -> None:
        """Adds a line to the job's log, if it can be written, and to Ray's."""
        line = f"--- {time.ctime()}, {socket.gethostname()}: {line}"
        print(line, file=sys.stderr, flush=True)
        with contextlib.suppress(OSError):
            if "://" not in self.spec.log:
                with open(self.spec.log, "a", encoding="utf-8") as file:
                    file.write(line + "\n")

    def _command(self, attempt: str, rank: int, address: str, writer: int) -> list[str]:
        """The command of one process of an attempt."""
        separator = self.spec.command.index("--")
        command = [sys.executable, *self.spec.command[1:separator]]
        command += ["--stop_with_parent", f"--record_fd={writer}"]
        command += [f"--attempt={attempt}", f"--rank={rank}"]
        command += self.spec.command[separator:]
        if self.spec.hosts > 1:
            command += [f"--coordinator={address}", f"--process_id={rank}"]
            command += [f"--num_processes={self.spec.hosts}"]
        return command

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
    Attempts that have no record, which `run_attempt` does not see, are counted here.
    """

    def __init__(self, spec: JobSpec):
        super().__init__(spec)
        self.host_actors: list[Any] = []
        threading.Thread(target=self._run_job, daemon=True).start()

    def stop(self) -> None:
        super().stop()
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get([host.stop.remote() for host in self.host_actors])

    def _run_job(self) -> None:
        single_host = self.spec.hosts == 1 and not self.spec.slice
        limits = {NOT_STARTED: self.spec.retries, LOST: self.spec.preemptions}
        ended: Counter[int] = Counter()
        while True:
            attempt = f"{time.time_ns()}"
            code = self.run(attempt) if single_host else self._run_on_hosts(attempt)
            if self.stopped or code in FINAL_EXIT_CODES:
                break
            ended[code] += 1
            if code in limits and ended[code] > limits[code]:
                how = "did not begin" if code == NOT_STARTED else "lost a host"
                self.log(f"given up: {ended[code]} attempts {how}")
                break
            time.sleep(RETRY_INTERVAL_S)
        this = ray.get_actor(self.spec.name, NAMESPACE)
        ray.kill(this, no_restart=True)

    def _run_on_hosts(self, attempt: str) -> int:
        """One attempt on several hosts: the first exit code that is not 0, or 0."""
        group, release = self._reserve_hosts()
        try:
            self.host_actors = [
                self._start_host_actor(group, index) for index in range(self.spec.hosts)
            ]
            address = ray.get(self.host_actors[0].address.remote())
            running = [
                host.run.remote(attempt, rank, address)
                for rank, host in enumerate(self.host_actors)
            ]
            return _wait_for_processes(running)
        except ray.exceptions.RayError:
            self.record(attempt, 0)
            self.log("a host was lost before the attempt began")
            return LOST
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
        return ray.remote(HostActor).options(**options).remote(self.spec)


def _wait_for_processes(running: list[Any]) -> int:
    """The first exit code that is not 0, NOT_STARTED, LOST, or 0.

    After a failure the other processes have STOP_TIMEOUT_S to end by themselves.
    """
    code = 0
    while running and not code:
        (ended, *_), running = ray.wait(running)
        try:
            code = ray.get(ended)
        except ray.exceptions.RayError:  # its machine was lost
            code = LOST
    if running:
        ray.wait(running, num_returns=len(running), timeout=STOP_TIMEOUT_S)
    return code
