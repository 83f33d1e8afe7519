"""The interface of a backend, and the folder of backends.

A backend starts `launch.backends.run_attempt` for each job, on machines that can read
and write the job's folder. The state of a job is read from files in that folder and
never from the backend, which may have restarted the command itself, on another
machine, while no driver was running.
"""

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from etils import epath

from launch.backends.attempt_log import Budget
from launch.backends.resources import Resources
from research.contract.errors import UserError
from research.contract.parts import Folder
from research.files.paths import absolute_path

FOLDER = Folder("launch.backends", "Backend", named_by="sweep --on")
"""The values of `--on`, without what follows a colon. A module of this folder has a
dataclass `Backend` of one of the two protocols below: it starts jobs from this process,
or writes files from which another program starts them. With `reads_our_files = True`
its jobs run on this machine, so that a dry run checks their texts. What it `requires`,
as pip writes it, is an extra of setup.py that is called as the backend is."""


class Job(Protocol):
    """A command that is run until its folder has `result.json`, restarted if needed."""

    id: str
    name: str  # for messages
    folder: epath.Path
    parents: Mapping[str, "Job"]  # jobs that must be done first; the keys do not matter

    @property
    def done(self) -> bool: ...

    @property
    def command(self) -> list[str]:
        """The command line. The same command resumes an interrupted job."""

    @property
    def progress(self) -> tuple[int, int]:
        """The number of steps done, and of all steps."""

    @property
    def summary(self) -> str:
        """The result in half a line."""


class JobBackend(Protocol):
    """Starts attempts at jobs, and may restart them itself."""

    detached: bool  # jobs outlive this process
    poll_interval_s: float
    default_parallel: int  # jobs at a time without --parallel; 0: no limit
    max_parallel: int  # 0: no limit

    def submit(self, jobs: Sequence[Job], budget: Budget) -> dict[str, str]:
        """Submits jobs; returns the backend's handle for each, by job id.

        Another process can find the job again by its handle alone.
        """

    def alive(self, handles: Iterable[str]) -> Collection[str]:
        """The handles of jobs that wait or run, or will be restarted by the backend."""

    def cancel(self, handles: Iterable[str]) -> None:
        """Asks jobs to stop, and prevents that the backend restarts them."""


class ManifestBackend(Protocol):
    """Writes files (manifests) from which another program starts the jobs."""

    def render(self, waves: Sequence[Sequence[Job]], budget: Budget) -> dict[str, str]:
        """File name -> text: one file for each job, and files that all jobs need.

        Args:
          waves: groups of jobs, each of which needs the results of those before it.
        """

    def instructions(self, folder: epath.PathLike) -> list[str]:
        """The shell commands that run the files that were written to a folder."""


def wave_folders(folder: epath.PathLike) -> dict[int, epath.Path]:
    """Number -> folder, of the waves of files that were written to a folder."""
    waves = absolute_path(folder).glob("wave-*")
    return dict(sorted((int(w.name.removeprefix("wave-")), w) for w in waves))


def flag(default: Any, help: str) -> Any:
    """A field of a backend's class that is a flag, --BACKEND.NAME, typed as `default`.

    Args:
      help: the flag's help text.
    """
    return dataclasses.field(default=default, metadata={"help": help}, kw_only=True)


def backend_flags(name: str) -> list[dataclasses.Field]:
    """The fields of a backend's class that are flags."""
    fields = dataclasses.fields(FOLDER.part_class(name, "backend"))
    return [field for field in fields if "help" in field.metadata]


def load_backend(
    on: str, resources: Resources, flags: Mapping[str, Any]
) -> JobBackend | ManifestBackend:
    """The backend that `--on` names, such as "local" or "slurm:gpu".

    Args:
      resources: the resources of each job.
      flags: "BACKEND.NAME" -> value.

    Raises:
      UserError: there is no such backend, a flag belongs to another one, or the
        backend cannot provide the resources.
    """
    name, _, location = on.partition(":")
    backend, values = FOLDER.part_class(name, "backend"), {}
    for key, value in flags.items():
        owner, _, field = key.partition(".")
        if owner != name:
            raise UserError(f"--{key} is a flag of another backend than --on={on}")
        values[field] = value
    return backend(location, resources, **values)
