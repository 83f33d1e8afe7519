"""A clock that is set back while programs run: that of Python, by a day."""

import os
import time
from pathlib import Path

VARIABLE = "SET_BACK_CLOCK"
"""Of the environment: a file; while it exists, it is yesterday."""

BACK_S = 86_400


def follow() -> None:
    """Makes `time.time` of this process follow the file, if there is one."""
    file, seconds, nanoseconds = os.environ.get(VARIABLE), time.time, time.time_ns
    if not file:
        return

    def back() -> int:
        return BACK_S if os.path.exists(file) else 0

    time.time = lambda: seconds() - back()
    time.time_ns = lambda: nanoseconds() - back() * 10**9


def environment(folder: Path, file: Path) -> dict[str, str]:
    """Variables with which Python programs, and those that they start, `follow`.

    Args:
      folder: receives the module that Python imports at its start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = "from tests.proofs import clock\n\nclock.follow()\n"
    (folder / "sitecustomize.py").write_text(text)
    root = Path(__file__).parents[2]
    paths = [str(folder), str(root), os.environ.get("PYTHONPATH", "")]
    return {"PYTHONPATH": ":".join(filter(None, paths)), VARIABLE: str(file)}


def turn(file: Path) -> None:
    """Sets the clock back, or forward again if it is."""
    if file.exists():
        file.unlink()
    else:
        file.touch()
