"""Shows the progress of jobs: bars on a terminal, else regular lines for each job."""

import time

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

from launch.backends.backend import Job

LOG_INTERVAL_S = 60.0


class JobProgress:
    """Shows how many jobs have a result, and the steps of those that run.

    Args:
      noun: what the jobs are called.
      total: the number of jobs.
      done: the number of jobs that have a result already.
    """

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
        self.total_bar = self.bars.add_task(noun, total=total, completed=done)
        self.total, self.done = total, done
        self.job_bars, self.start_times = {}, {}
        self.last_logged = time.monotonic()

    def start(self, job: Job) -> None:
        self.start_times.setdefault(job, time.monotonic())
        total = job.progress[1]
        self.job_bars[job] = self.bars.add_task(f"{job.name}: steps", total=total)

    def refresh(self) -> None:
        """Shows the running jobs' steps; without bars, every LOG_INTERVAL_S."""
        logs = self.bars.disable
        if logs and time.monotonic() - self.last_logged < LOG_INTERVAL_S:
            return
        for job, bar in self.job_bars.items():
            step, total = job.progress
            self.bars.update(bar, completed=step)
            if logs:
                self.log(f"{job.name}: step {step} of {total}")

    def end(self, job: Job, outcome: str) -> None:
        self.bars.remove_task(self.job_bars.pop(job))
        self.done += job.done
        self.bars.update(self.total_bar, completed=self.done)
        seconds = time.monotonic() - self.start_times[job]
        self.log(f"{job.name}: {outcome}, {seconds:.0f} s")

    def log(self, line: str) -> None:
        self.last_logged = time.monotonic()
        self.console.print(f"[{self.done}/{self.total}] {line}", markup=False)
