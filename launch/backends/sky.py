"""SkyPilot's managed jobs, --on=sky:INFRA: task files for `sky jobs launch`."""

import dataclasses
import re
import shlex
from collections.abc import Sequence
from typing import Any

import yaml
from etils import epath

from launch import cli
from launch.backends import run_attempt
from launch.backends.attempt_log import Budget
from launch.backends.backend import Job, flag, wave_folders
from launch.backends.resources import Resources
from research.contract.errors import UserError
from research.files.paths import is_in_bucket

COORDINATOR_PORT = 8476
"""The port on which process 0 listens."""

ACCELERATORS = {
    "v4": "tpu-v4-{cores}",
    "v5e": "tpu-v5litepod-{chips}",
    "v5p": "tpu-v5p-{cores}",
    "v6e": "tpu-v6e-{chips}",
}
"""TPU generation -> SkyPilot's name of a slice, with its number of chips or of
TensorCores, of which a chip has two.
"""

ATTEMPT = (
    'ATTEMPT=$(echo "$SKYPILOT_TASK_ID $SKYPILOT_NODE_IPS" | cksum | cut -d" " -f1)'
)
"""Shell code for the name of an attempt: equal on all its hosts, else different."""


@dataclasses.dataclass
class Backend:
    """A job is a managed job of SkyPilot, which recovers it after a preemption."""

    location: str  # infrastructure by SkyPilot's name: gcp, gcp/us-central2; "": any
    resources: Resources
    gpu: str = flag("", "the GPU by SkyPilot's name, such as H100")
    spot: str = flag("yes", "no: only machines that are not preempted")
    memory: str = flag("", "GiB of each host, such as 64+")
    setup: str = flag("", "what a new machine runs first; '': it makes .venv")

    def __post_init__(self):
        if bool(self.gpu) != bool(self.resources.gpus):
            raise UserError("--sky.gpu=NAME and --gpus=N go together")
        if self.spot not in ("yes", "no"):
            raise UserError(f"--sky.spot={self.spot}: it is yes or no")
        tpu_slice = self.resources.tpu_slice
        if tpu_slice and tpu_slice.generation not in ACCELERATORS:
            known = ", ".join(ACCELERATORS)
            raise UserError(f"--slice={self.resources.slice}: SkyPilot has {known}")

    def render(self, waves: Sequence[Sequence[Job]], budget: Budget) -> dict[str, str]:
        files = {}
        for wave, jobs in enumerate(waves):
            for job in jobs:
                if not is_in_bucket(job.folder):
                    raise UserError(
                        f"--workdir={job.folder}: SkyPilot's machines can only read "
                        "a bucket, such as gs://BUCKET/NAME"
                    )
                text = yaml.safe_dump(
                    self._task(job, budget), sort_keys=False, width=1000
                )
                files[f"wave-{wave}/{job.id}.yaml"] = text
        return files

    def instructions(self, folder: epath.PathLike) -> list[str]:
        lines = []
        for wave, tasks in wave_folders(folder).items():
            if wave:
                lines.append(
                    f"# when the jobs of wave {wave - 1} are done (sky jobs queue):"
                )
            lines.append(
                f"for task in {shlex.quote(str(tasks))}/*.yaml; do "
                'sky jobs launch --yes --async "$task"; done'
            )
        return lines

    def _task(self, job: Job, budget: Budget) -> dict[str, Any]:
        """SkyPilot's definition of a job."""
        return {
            "name": f"palimpsest-{job.id}-{budget.round}",
            "num_nodes": 1 if self.resources.slice else self.resources.hosts,
            "workdir": ".",
            "resources": self._task_resources(budget),
            "setup": self.setup or self._make_environment(),
            "run": self._script(job, budget),
        }

    def _script(self, job: Job, budget: Budget) -> str:
        """The shell script that each host runs."""
        lines, command = [ATTEMPT], list(job.command)
        if self.resources.hosts > 1 and not self.resources.slice:
            lines.append('FIRST=$(echo "$SKYPILOT_NODE_IPS" | head -n 1)')
            address = f"{_variable('FIRST')}:{COORDINATOR_PORT}"
            command.append(f"--coordinator={address}")
            command.append(f"--num_processes={self.resources.hosts}")
            command.append(f"--process_id={_variable('SKYPILOT_NODE_RANK')}")
        attempt = run_attempt.attempt_command(
            command,
            job.folder,
            budget,
            attempt=f"{budget.round}.{_variable('ATTEMPT')}",
            rank=_variable("SKYPILOT_NODE_RANK"),
        )
        return "\n".join([*lines, _shell([".venv/bin/python", *attempt[1:]]), ""])

    def _make_environment(self) -> str:
        """The shell command that makes .venv, with the packages of a TPU or GPU."""
        resources = self.resources
        extra = "tpu" if resources.slice else "cuda" if resources.gpus else ""
        install = ".venv/bin/uv pip install --python .venv/bin/python"
        return f"make env && {install} '.[{extra}]'" if extra else "make env"

    def _task_resources(self, budget: Budget) -> dict[str, Any]:
        """A task's resources, by SkyPilot's names."""
        requested = {}
        if self.location:
            requested["infra"] = self.location
        tpu_slice = self.resources.tpu_slice
        if tpu_slice:
            chips = tpu_slice.num_chips
            name = ACCELERATORS[tpu_slice.generation]
            requested["accelerators"] = name.format(chips=chips, cores=2 * chips)
        elif self.resources.gpus:
            requested["accelerators"] = f"{self.gpu}:{self.resources.gpus}"
        else:
            requested["cpus"] = f"{self.resources.cpus}+"
        if self.memory:
            requested["memory"] = self.memory
        requested["use_spot"] = self.spot == "yes"
        requested["job_recovery"] = {
            "max_restarts_on_errors": budget.retries,
            "recover_on_exit_codes": [cli.PREEMPTED],
        }
        return requested


def _variable(name: str) -> str:
    """A marker that `_shell` turns into a variable; users' text has no NUL."""
    return f"\0{name}\0"


def _shell(words: Sequence[str]) -> str:
    """A command line in which a shell expands only the markers of `_variable`."""
    line = " ".join(map(shlex.quote, words))
    return re.sub("\0(.+?)\0", r"""'"$\1"'""", line)
