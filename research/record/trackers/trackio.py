"""Trackio's pages on this machine (`trackio show`): `train.track=trackio:PROJECT`.

`trackio show` opens them. TRACKIO_DIR is the folder of its files, by default in the
cache of Hugging Face; TRACKIO_SPACE_ID sends them to a Space.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

from etils import epath

from research.record.trackers import run_id
from research.record.trackers.logged_run import LoggedRun


class Tracker(LoggedRun):
    """A run of a project, named by the workdir's name and a hash of its path."""

    package: ClassVar[str] = "trackio"
    requires: ClassVar[str] = "trackio>=0.20"

    def __init__(self, project: str, workdir: epath.Path, config: Mapping[str, Any]):
        import trackio

        self.module = trackio
        self.run = trackio.init(
            project=project,
            name=f"{workdir.name}-{run_id(project, workdir)}",
            resume="allow",
            config=dict(config),
            embed=False,
        )
