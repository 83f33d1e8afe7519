"""One thread that does all work of a server, in batches of what waits in a queue."""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

MAX_BATCH, WAIT_S, QUEUE = 16, 0.005, 64
"""Requests of a batch, how long the first one waits for others, and how many may wait
before further ones are refused."""


class BusyError(Exception):
    """The queue is full."""


class _Job:
    def __init__(self, kind: str, item: Any):
        self.kind, self.item = kind, item
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None


class Worker:
    """Calls functions of lists, each with the items that wait for it.

    Args:
      functions: kind -> a function of items to as many results.
    """

    def __init__(self, functions: Mapping[str, Callable[[Sequence[Any]], Sequence]]):
        self._functions = functions
        self._queue: queue.Queue[_Job | None] = queue.Queue(QUEUE)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def do(self, kind: str, item: Any, timeout_s: float) -> Any:
        """The result of one item.

        Raises:
          BusyError: the queue is full.
          TimeoutError: there is no result in time.
        """
        job = _Job(kind, item)
        try:
            self._queue.put_nowait(job)
        except queue.Full as error:
            raise BusyError from error
        if not job.done.wait(timeout_s):
            raise TimeoutError
        if job.error is not None:
            raise job.error
        return job.result

    def close(self) -> None:
        """Does what waits in the queue, then ends."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            jobs, until, is_last = [first], time.monotonic() + WAIT_S, False
            while len(jobs) < MAX_BATCH and not is_last:
                try:
                    job = self._queue.get(timeout=max(0, until - time.monotonic()))
                except queue.Empty:
                    break
                is_last = job is None
                jobs += [job] if job is not None else []
            for kind in dict.fromkeys(job.kind for job in jobs):
                self._do([job for job in jobs if job.kind == kind])
            if is_last:
                return

    def _do(self, jobs: Sequence[_Job]) -> None:
        try:
            results = self._functions[jobs[0].kind]([job.item for job in jobs])
            for job, result in zip(jobs, results, strict=True):
                job.result = result
        except Exception as error:  # a bug: its requests fail, others do not
            for job in jobs:
                job.error = error
        for job in jobs:
            job.done.set()
