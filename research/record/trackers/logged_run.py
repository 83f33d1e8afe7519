"""The interface of runs that Weights & Biases began and Trackio shares."""

from collections.abc import Mapping, Sequence
from typing import Any

from research.record import trackers


class LoggedRun(trackers.Tracker):
    """A tracker whose package has tables, and runs that log values.

    Attributes:
      module: the package, which has Table.
      run: what its init returned.
    """

    module: Any
    run: Any

    def write(self, step: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=step)

    def write_table(
        self, step: int, name: str, columns: Sequence[str], rows: Sequence[list[str]]
    ) -> None:
        table = self.module.Table(columns=[*columns], data=[*rows])
        self.run.log({name: table}, step=step)

    def close(self) -> None:
        self.run.finish()
