"""Tasks for SkyPilot's managed jobs: written here, run by `sky jobs launch`."""

import dataclasses
import os
import shlex
from collections.abc import Sequence
from typing import Any

import yaml
from etils import epath

from launch import cli
from launch.backends import Need, Task, option, run_attempt
from launch.backends.attempt_log import Budget
from research.errors import UserError

PORT = 8476
"""On which process 0 listens."""


CHIPS = {"v5e": "tpu-v5litepod-{chips}", "v6e": "tpu-v6e-{chips}"}
CORES = {"v4": "tpu-v4-{cores}", "v5p": "tpu-v5p-{cores}"}
"""SkyPilot's names of slices: some count chips, some their two cores."""

ATTEMPT = (
    'ATTEMPT=$(echo "$SKYPILOT_TASK_ID $SKYPILOT_NODE_IPS" | cksum | cut -d" " -f1)'
)
"""The same on all hosts, another one on other machines."""


@dataclasses.dataclass
class Engine:
    """A task is a managed job; SkyPilot recovers it where machines are taken away."""

    where: (
        str  # infrastructure as SkyPilot names it: gcp, gcp/us-central2, ...; "": any
    )
    need: Need
    gpu: str = option("", "kind of GPU as SkyPilot names it, such as H100")
    spot: str = option("yes", "no: only machines that stay")
    memory: str = option("", "GiB of each host, such as 64+")
    setup: str = option("", "what a new machine runs first; '': it makes .venv")

    def __post_init__(self):
        if bool(self.gpu) != bool(self.need.gpus):
            raise UserError("--sky.gpu=KIND and --gpus=N go together")
        if self.spot not in ("yes", "no"):
            raise UserError(f"--sky.spot={self.spot}: it is yes or no")
        known = CHIPS | CORES
        if self.need.slice and self.need.generation not in known:
            raise UserError(
                f"--slice={self.need.slice}: SkyPilot has {', '.join(sorted(known))}"
            )

    def render(self, waves: Sequence[Sequence[Task]], budget: Budget) -> dict[str, str]:
        files = {}
        for number, tasks in enumerate(waves):
            for task in tasks:
                if "://" not in os.fspath(task.folder):
                    raise UserError(
                        f"--workdir={task.folder}: SkyPilot's machines see a bucket "
                        "alone, such as gs://BUCKET/NAME"
                    )
                text = yaml.safe_dump(
                    self._task(task, budget), sort_keys=False, width=1000
                )
                files[f"wave-{number}/{task.id}.yaml"] = text
        return files

    def advice(self, folder: epath.PathLike) -> list[str]:
        waves = sorted(path.name for path in epath.Path(folder).glob("wave-*"))
        return [
            f"for task in {epath.Path(folder) / wave}/*.yaml; do "
            'sky jobs launch --yes --async "$task"; done'
            for wave in waves
        ]

    def _task(self, task: Task, budget: Budget) -> dict[str, Any]:
        return {
            "name": f"palimpsest-{task.id}-{budget.round}",
            "num_nodes": 1 if self.need.slice else self.need.hosts,
            "workdir": ".",
            "resources": self._resources(budget),
            "setup": self.setup or self._environment(),
            "run": self._run(task, budget),
        }

    def _run(self, task: Task, budget: Budget) -> str:
        """The script of each host."""
        lines, words = [ATTEMPT], list(task.command)
        if self.need.hosts > 1 and not self.need.slice:
            lines.append('FIRST=$(echo "$SKYPILOT_NODE_IPS" | head -n 1)')
            words.append(f"--coordinator=$FIRST:{PORT}")
            words.append(f"--num_processes={self.need.hosts}")
            words.append("--process_id=$SKYPILOT_NODE_RANK")
        whole = run_attempt.command(
            words,
            task.folder,
            budget,
            attempt=f"{budget.round}.$ATTEMPT",
            rank="$SKYPILOT_NODE_RANK",
        )
        return "\n".join([*lines, _shell([".venv/bin/python", *whole[1:]]), ""])

    def _environment(self) -> str:
        """Makes .venv, with what a TPU or GPU needs in it."""
        extra = "tpu" if self.need.slice else "cuda" if self.need.gpus else ""
        install = ".venv/bin/uv pip install --python .venv/bin/python"
        return f"make env && {install} '.[{extra}]'" if extra else "make env"

    def _resources(self, budget: Budget) -> dict[str, Any]:
        need, found = self.need, {}
        if self.where:
            found["infra"] = self.where
        if need.slice:
            chips = need.hosts * need.chips
            name = (CHIPS | CORES)[need.generation]
            found["accelerators"] = name.format(chips=chips, cores=2 * chips)
        elif need.gpus:
            found["accelerators"] = f"{self.gpu}:{need.gpus}"
        else:
            found["cpus"] = f"{need.cpus}+"
        if self.memory:
            found["memory"] = self.memory
        found["use_spot"] = self.spot == "yes"
        found["job_recovery"] = {
            "max_restarts_on_errors": budget.retries,
            "recover_on_exit_codes": [cli.PREEMPTED],
        }
        return found


def _shell(words: Sequence[str]) -> str:
    """Words of a command for a shell, which fills in those that hold a variable."""
    return " ".join(f'"{w}"' if "$" in w else shlex.quote(w) for w in words)
