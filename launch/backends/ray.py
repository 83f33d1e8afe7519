"""A Ray cluster, --on=ray or ray://HOST: each job is an actor that outlives us."""

import dataclasses
import os
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from etils import epath

from launch import cli
from launch.backends import attempt_log, run_attempt
from launch.backends.attempt_log import Budget
from launch.backends.backend import Job, flag
from launch.backends.resources import Resources
from research.contract.errors import UserError, missing_package

CLIENT_PORT = 10001
"""The default port of Ray's client server."""
MAX_CONNECTION_ATTEMPTS = 3
"""The most attempts to connect: a cluster's client server may die at its start."""
GENERATIONS = {"v5e": "v5litepod", "tpu7x": "v7x"}
"""Ray's names of TPU generations, where they differ from ours."""


@dataclasses.dataclass
class Backend:
    """A job is a detached actor; its handle is the actor's name, the job's folder.

    --on=ray is the cluster of this machine, which is started if there is none;
    --on=ray://HOST[:PORT] is the cluster whose client server listens there.
    """

    location: str  # "" or "//HOST[:PORT]"
    resources: Resources
    upload: str = flag(
        "", "a folder to send to the machines and run in; '': they have it"
    )

    requires = "ray[client]>=2.50"
    detached, poll_interval_s, default_parallel, max_parallel = True, 1.0, 0, 0

    def __post_init__(self):
        if self.location and not (self.location.startswith("//") and self.location[2:]):
            raise UserError(
                f"--on=ray:{self.location}: write --on=ray or --on=ray://HOST[:PORT]"
            )
        self._ray: Any = None

    def submit(self, jobs: Sequence[Job], budget: Budget) -> dict[str, str]:
        self._connect()
        from launch.backends import ray_actors

        handles = {}
        for job in jobs:
            name = os.fspath(job.folder)
            spec = ray_actors.JobSpec(
                name=name,
                command=run_attempt.attempt_command(job.command, name, budget),
                folder="" if self.upload else os.getcwd(),
                hosts=self.resources.hosts,
                resources=self._host_resources(),
                slice=self._slice(),
                retries=budget.retries,
                preemptions=budget.preemptions,
                log=os.fspath(run_attempt.log_path(job.folder)),
                records=os.fspath(job.folder / attempt_log.FOLDER),
                lost_record=dataclasses.asdict(_lost_record(budget)),
            )
            actor = self._ray.remote(ray_actors.JobActor)
            options = self._actor_options(name) | {"namespace": ray_actors.NAMESPACE}
            actor.options(**options).remote(spec)
            handles[job.id] = name
        return handles

    def alive(self, handles: Iterable[str]) -> Collection[str]:
        handles = list(handles)
        if not handles:
            return []
        actors = self._connect().util.list_named_actors(all_namespaces=True)
        return {actor["name"] for actor in actors}.intersection(handles)

    def cancel(self, handles: Iterable[str]) -> None:
        """Asks jobs to stop; running jobs save a checkpoint first."""
        from launch.backends import ray_actors

        actors = {
            handle: self._ray.get_actor(handle, ray_actors.NAMESPACE)
            for handle in self.alive(handles)
        }
        stops = [
            actor.stop.remote()
            for handle, actor in actors.items()
            if any(a.alive for a in attempt_log.read_attempts(epath.Path(handle))[-1:])
        ]
        if stops:
            self._ray.wait(
                stops, num_returns=len(stops), timeout=ray_actors.STOP_TIMEOUT_S
            )
        for actor in actors.values():
            self._ray.kill(actor, no_restart=True)
        while self.alive(handles):
            time.sleep(self.poll_interval_s)

    def _connect(self) -> Any:
        """The module ray, connected to the cluster by the first call.

        Raises:
          UserError: Ray is not installed, or there is no such cluster.
        """
        if self._ray:
            return self._ray
        try:
            import ray
        except ImportError as error:
            raise missing_package("--on=ray", "ray", "ray") from error
        from launch.backends import ray_actors

        ray.cloudpickle.register_pickle_by_value(sys.modules[ray_actors.__name__])
        options = {"namespace": ray_actors.NAMESPACE, "log_to_driver": False}
        options |= {"logging_level": "ERROR", "ignore_reinit_error": True}
        try:
            if self.location:
                host, colon, port = self.location[2:].rpartition(":")
                address = f"{host}:{port}" if colon else f"{port}:{CLIENT_PORT}"
                _connect_client(ray, f"ray://{address}", options)
            else:
                self._connect_local(ray, options)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UserError(
                f"--on=ray:{self.location}: no cluster there ({_error_line(error)})"
            ) from error
        self._ray = ray
        return ray

    def _connect_local(self, ray: Any, options: dict[str, Any]) -> None:
        """Connects to this machine's cluster, or starts one that ends with us."""
        try:
            ray.init("auto", **options)
        except ConnectionError:
            ray.init(include_dashboard=False, **options)
            self.detached = False

    def _host_resources(self) -> dict[str, float]:
        """The resources of each host, by Ray's names."""
        counts = {
            "CPU": self.resources.cpus,
            "GPU": self.resources.gpus,
            "TPU": self.resources.chips,
        }
        return {name: float(count) for name, count in counts.items() if count}

    def _slice(self) -> tuple[str, str] | None:
        """Ray's name of the TPU generation, and the topology."""
        tpu_slice = self.resources.tpu_slice
        if not tpu_slice:
            return None
        generation = tpu_slice.generation
        return GENERATIONS.get(generation, generation), tpu_slice.topology

    def _actor_options(self, name: str) -> dict[str, Any]:
        """Options of a job's actor, which needs resources if it runs the job."""
        resources = self._host_resources()
        single_host = self.resources.hosts == 1 and not self.resources.slice
        options = {
            "name": name,
            "get_if_exists": True,  # of a driver that was killed as it submitted
            "lifetime": "detached",
            "max_restarts": -1,
            "max_concurrency": 4,
            "num_cpus": resources["CPU"] if single_host else 0,
            "num_gpus": resources.get("GPU", 0) if single_host else 0,
        }
        if self.upload:
            options["runtime_env"] = {
                "working_dir": self.upload,
                "excludes": [".git", ".venv", "runs"],
            }
        return options


def _lost_record(budget: Budget) -> attempt_log.ProcessRecord:
    """The record of a process that was lost with its machine before it had one."""
    return attempt_log.ProcessRecord(
        attempt="",
        rank=0,
        round=budget.round,
        host="",
        pid=0,
        started=0.0,
        heartbeat=0.0,
        ended=0.0,
        exit_code=cli.PREEMPTED,
    )


def _connect_client(ray: Any, address: str, options: dict[str, Any]) -> None:
    """Connects to the client server of a cluster."""
    for attempt in range(1, MAX_CONNECTION_ATTEMPTS + 1):
        try:
            ray.init(address, **options)
            return
        except ConnectionAbortedError:
            if attempt == MAX_CONNECTION_ATTEMPTS:
                raise


def _error_line(error: Exception) -> str:
    """An error in one line; the last one, if it holds the traceback of a server."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]
    return " ".join(lines)
