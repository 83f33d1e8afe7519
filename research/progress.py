"""Progress that a person waits for: a bar on a terminal, a line now and then in a log."""

import sys
import time
from types import TracebackType
from typing import Self

PAUSE = 10.0
"""Seconds between two lines in a log."""


class Progress:
    """Counts up to `total`; use as a context and call `advance`.

    Args:
      what: is being done, in a word or two.
      total: how many of `unit` there are; None: unknown.
    """

    def __init__(self, what: str, total: int | None, unit: str, *, done: int = 0):
        self.what, self.total, self.unit, self.done = what, total, unit, done
        self.note, self.spoke, self.bar = "", time.monotonic(), None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar
            from rich.progress import TextColumn

            columns = (*Bar.get_default_columns(), TextColumn("{task.fields[note]}"))
            self.bar = Bar(*columns, console=Console(stderr=True))
            self.bar.start()
            self.task = self.bar.add_task(
                self.what, total=self.total, completed=self.done, note=""
            )
        return self

    def advance(self, count: int, note: str | None = None) -> None:
        """Counts on; `note` is what stands beside the bar from now on."""
        self.done += count
        self.note = self.note if note is None else note
        if self.bar:
            self.bar.update(self.task, completed=self.done, note=self.note)
        elif time.monotonic() - self.spoke >= PAUSE:
            self._say()

    def _say(self) -> None:
        self.spoke = time.monotonic()
        of = f" of {self.total:,}" if self.total else ""
        print(
            f"{self.what}: {self.done:,}{of} {self.unit} {self.note}".rstrip(),
            file=sys.stderr,
            flush=True,
        )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar:
            self.bar.stop()
        elif kind is None:
            self._say()
