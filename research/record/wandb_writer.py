"""Sends a run's metrics to Weights & Biases: `train.wandb=PROJECT`."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from research.contract.errors import UserError, missing_package
from research.files.json_files import digest
from research.files.paths import absolute_path, is_in_bucket


class WandbWriter:
    """One run there for a workdir: a run that resumes goes on in it.

    The environment says the rest, as for any program that uses wandb: WANDB_API_KEY,
    WANDB_MODE=offline, WANDB_ENTITY.

    Raises:
      UserError: the package is missing, or it cannot begin a run.
    """

    def __init__(self, project: str, workdir: epath.Path, config: Mapping[str, Any]):
        try:
            import wandb
        except ImportError as error:
            raise missing_package(f"train.wandb={project}", "wandb") from error
        self._wandb, path = wandb, os.fspath(absolute_path(workdir))
        try:
            self._run = wandb.init(
                project=project,
                name=workdir.name,
                id=digest([path, project])[:16],
                resume="allow",
                config=dict(config),
                dir=None if is_in_bucket(path) else path,
            )
        except Exception as error:  # one of its many types
            reason, *_ = [*str(error).splitlines(), type(error).__name__]
            raise UserError(
                f"train.wandb={project}: {reason}; with WANDB_MODE=offline a run is "
                "kept in the workdir, to be sent later"
            ) from error

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def write_table(
        self, step: int, name: str, columns: Sequence[str], rows: Sequence[list[str]]
    ) -> None:
        table = self._wandb.Table(columns=[*columns], data=[*rows])
        self._run.log({name: table}, step=step)

    def close(self) -> None:
        self._run.finish()
