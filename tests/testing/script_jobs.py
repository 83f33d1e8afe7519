"""Jobs that run a piece of Python code, and a wait with a deadline."""

import dataclasses
import os
import time
from collections.abc import Callable

from etils import epath


@dataclasses.dataclass(eq=False)
class ScriptJob:
    """A job that runs code, whose argument is the job's folder.

    The code has to write `result.json` there.
    """

    folder: epath.Path
    code: str
    parents: dict = dataclasses.field(default_factory=dict)
    progress = (0, 1)
    summary = "done"

    @property
    def id(self) -> str:
        return self.folder.name

    name = id

    @property
    def done(self) -> bool:
        return (self.folder / "result.json").exists()

    @property
    def command(self) -> list[str]:
        return ["python", "-c", self.code, os.fspath(self.folder)]


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits until a condition holds; fails if it does not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)
