"""Shows tasks that run: bars on a terminal, and a line now and then anywhere."""

import time

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from launch.backends import Task

PAUSE = 60.0
"""Seconds between two lines of a log."""


class Board:
    """Of `total` tasks, of which `done` have a result already, called by a noun."""

    def __init__(self, noun: str, total: int, done: int):
        self.console = Console(stderr=True, soft_wrap=True, highlight=False)
        self.bars = Progress(
            *Progress.get_default_columns()[:2],
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            disable=not self.console.is_terminal,
            transient=True,
        )
        self.all = self.bars.add_task(noun, total=total, completed=done)
        self.total, self.done = total, done
        self.rows, self.since = {}, {}
        self.spoke = time.monotonic()

    def start(self, task: Task) -> None:
        self.since.setdefault(task, time.monotonic())
        total = task.progress[1]
        self.rows[task] = self.bars.add_task(f"{task.name}: steps", total=total)

    def look(self) -> None:
        """Shows how far the running tasks are: always, or once in a while in a log."""
        if self.bars.disable and time.monotonic() - self.spoke < PAUSE:
            return
        for task, row in self.rows.items():
            step, total = task.progress
            self.bars.update(row, completed=step)
            if self.bars.disable:
                self.say(f"{task.name}: step {step} of {total}")

    def end(self, task: Task, outcome: str) -> None:
        self.bars.remove_task(self.rows.pop(task))
        self.done += task.done
        self.bars.update(self.all, completed=self.done)
        seconds = time.monotonic() - self.since[task]
        self.say(f"{task.name}: {outcome}, {seconds:.0f} s")

    def say(self, line: str) -> None:
        self.spoke = time.monotonic()
        self.console.print(f"[{self.done}/{self.total}] {line}", markup=False)
