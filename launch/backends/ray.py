"""The engine of a Ray cluster: each task is an actor that outlives this process."""

import dataclasses
import os
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from etils import epath

from launch.backends import Need, Task, attempt_log, option, run_attempt
from launch.backends.attempt_log import Budget
from research.errors import UserError

PORT = 10001
"""Of Ray's client server, unless told."""
TRIES = 3
"""How often a cluster is asked for a server of our own, which may die as it starts."""
VERSIONS = {"v5e": "v5litepod", "tpu7x": "v7x"}
"""Ray's names of TPU generations, where they are others."""


@dataclasses.dataclass
class Engine:
    """A job is a detached actor, named by its task's folder.

    "ray" is the cluster of this machine, or one that it starts for itself;
    "ray://HOST[:PORT]" another machine's, by its client server.
    """

    where: str
    need: Need
    upload: str = option(
        "", "a folder to run in, sent to the machines; '': they have it"
    )

    outlives, pause, parallel = True, 1.0, 0

    def __post_init__(self):
        if self.where and not (self.where.startswith("//") and self.where[2:]):
            raise UserError(f"--on=ray:{self.where}: it is ray, or ray://HOST[:PORT]")
        self._ray: Any = None

    def submit(self, tasks: Sequence[Task], budget: Budget) -> dict[str, str]:
        self._connect()
        from launch.backends import ray_actors

        jobs = {}
        for task in tasks:
            name = os.fspath(task.folder)
            order = ray_actors.Order(
                name=name,
                words=run_attempt.command(task.command, name, budget),
                folder="" if self.upload else os.getcwd(),
                hosts=self.need.hosts,
                resources=self._resources(),
                slice=self._slice(),
            )
            leader = self._ray.remote(ray_actors.Leader)
            options = self._options(name) | {"namespace": ray_actors.NAMESPACE}
            leader.options(**options).remote(order)
            jobs[task.id] = name
        return jobs

    def alive(self, jobs: Iterable[str]) -> Collection[str]:
        jobs = list(jobs)
        if not jobs:
            return []
        named = self._connect().util.list_named_actors(all_namespaces=True)
        return {actor["name"] for actor in named}.intersection(jobs)

    def cancel(self, jobs: Iterable[str]) -> None:
        """What runs is asked to save itself first."""
        from launch.backends import ray_actors

        actors = {
            job: self._ray.get_actor(job, ray_actors.NAMESPACE)
            for job in self.alive(jobs)
        }
        runs = [
            actor.stop.remote()
            for job, actor in actors.items()
            if any(a.lives for a in attempt_log.read(epath.Path(job))[-1:])
        ]
        if runs:
            self._ray.wait(runs, num_returns=len(runs), timeout=ray_actors.MERCY)
        for actor in actors.values():
            self._ray.kill(actor, no_restart=True)
        while self.alive(jobs):
            time.sleep(self.pause)

    def _connect(self) -> Any:
        """Ray, connected to the cluster once."""
        if self._ray:
            return self._ray
        try:
            import ray
        except ImportError as error:
            raise UserError(
                "--on=ray needs the package ray: pip install 'palimpsest[ray]'"
            ) from error
        from launch.backends import ray_actors

        ray.cloudpickle.register_pickle_by_value(sys.modules[ray_actors.__name__])
        told = {"namespace": ray_actors.NAMESPACE, "log_to_driver": False}
        told |= {"logging_level": "ERROR", "ignore_reinit_error": True}
        try:
            if self.where:
                host, colon, port = self.where[2:].rpartition(":")
                address = f"{host}:{port}" if colon else f"{port}:{PORT}"
                _join(ray, f"ray://{address}", told)
            else:
                self._nearby(ray, told)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UserError(
                f"--on=ray:{self.where}: no cluster there ({_reason(error)})"
            ) from error
        self._ray = ray
        return ray

    def _nearby(self, ray: Any, told: dict[str, Any]) -> None:
        """The cluster of this machine; if there is none, one that dies with us."""
        try:
            ray.init("auto", **told)
        except ConnectionError:
            ray.init(include_dashboard=False, **told)
            self.outlives = False

    def _resources(self) -> dict[str, float]:
        """Ray's names for what a host is to have."""
        found = {"CPU": self.need.cpus, "GPU": self.need.gpus, "TPU": self.need.chips}
        return {name: float(number) for name, number in found.items() if number}

    def _slice(self) -> tuple[str, str] | None:
        if not self.need.slice:
            return None
        generation = self.need.generation
        return VERSIONS.get(generation, generation), self.need.topology

    def _options(self, name: str) -> dict[str, Any]:
        """Of the actor that leads a task, and runs it where one host is enough."""
        needs = self._resources()
        alone = self.need.hosts == 1 and not self.need.slice
        options = {
            "name": name,
            "lifetime": "detached",
            "max_restarts": -1,
            "max_concurrency": 4,
            "num_cpus": needs["CPU"] if alone else 0,
            "num_gpus": needs.get("GPU", 0) if alone else 0,
        }
        if self.upload:
            options["runtime_env"] = {
                "working_dir": self.upload,
                "excludes": [".git", ".venv", "runs"],
            }
        return options


def _join(ray: Any, address: str, told: dict[str, Any]) -> None:
    """Connects to the client server of a cluster."""
    for left in reversed(range(TRIES)):
        try:
            ray.init(address, **told)
            return
        except ConnectionAbortedError:
            if not left:
                raise


def _reason(error: Exception) -> str:
    """An error in a line; of one that brings the server's traceback, its last one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any(line.startswith("Traceback") for line in lines):
        return lines[-1]
    return " ".join(lines)
