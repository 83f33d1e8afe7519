"""Progress of a long job: a bar on a terminal, or occasional lines in a log."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

LOG_INTERVAL_S = 10.0
"""Seconds between two lines in a log."""

MANY = 1000
"""Texts of which those who read them show how many are done."""


@contextlib.contextmanager
def progress(
    what: str, total: int | None = None, *, silent: bool = False
) -> Iterator[Callable]:
    """Yields `report(done, note)`, which shows how much is done on standard error.

    Args:
      what: the name of the job.
      total: the value of `done` at the end, in any unit; None: unknown.
      silent: shows nothing.
    """
    if silent:
        yield lambda done, note: None
        return
    if sys.stderr.isatty():
        columns = [TextColumn("{task.description}"), BarColumn(20)]
        columns += [TimeRemainingColumn(), TextColumn("{task.fields[note]}")]
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total, note="")
            yield lambda done, note: bar.update(task, completed=done, note=note)
        return
    last, first = time.monotonic(), None  # first: its time, and how much was done then

    def report(done: int, note: str) -> None:
        nonlocal last, first
        now = time.monotonic()
        first = first or (now, done)
        if now - last >= LOG_INTERVAL_S:
            last = now
            parts = [f"{100 * done / total:.0f} %"] if total else []
            parts += [note] if note else []
            if total and done > first[1]:
                per_unit = (now - first[0]) / (done - first[1])
                parts.append(f"{format_seconds(per_unit * (total - done))} left")
            print(f"{what}: {', '.join(parts)}", file=sys.stderr, flush=True)

    yield report


def format_seconds(seconds: float) -> str:
    """A duration, such as 45 s, 12 min or 3 h 05 min."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min" if minutes else f"{seconds:.0f} s"
