"""Weights & Biases: `train.track=wandb:PROJECT` (WANDB_MODE=offline: in the workdir).

The environment decides the rest, as for any program that uses it: WANDB_API_KEY,
WANDB_ENTITY, WANDB_MODE=offline.
"""

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from etils import epath

from research.files.paths import absolute_path, is_in_bucket
from research.record.trackers import run_id
from research.record.trackers.logged_run import LoggedRun


class Tracker(LoggedRun):
    """A run of a project; its files are in the workdir."""

    package: ClassVar[str] = "wandb"
    requires: ClassVar[str] = "wandb>=0.18"
    remedy: ClassVar[str] = (
        "; with WANDB_MODE=offline a run is kept in the workdir, to be sent later"
    )
    replaces: ClassVar[str] = "wandb"

    def __init__(self, project: str, workdir: epath.Path, config: Mapping[str, Any]):
        import wandb

        self.module, path = wandb, os.fspath(absolute_path(workdir))
        self.run = wandb.init(
            project=project,
            name=workdir.name,
            id=run_id(project, workdir),
            resume="allow",
            config=dict(config),
            dir=None if is_in_bucket(path) else path,
        )
