"""One thread that does all work of a server, in batches of what waits in a queue."""

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

MAX_BATCH, WAIT_S, QUEUE = 16, 0.005, 64
"""Requests of a batch, how long the first one waits for others, and how many may wait
before further ones are refused."""


class BusyError(Exception):
    """The queue is full."""


class _Job(NamedTuple):
    function: str
    item: Any
    future: Future


class Worker:
    """Calls functions of lists, each with the items that wait for it.

    Args:
      functions: name -> a function of items to as many results.
    """

    def __init__(self, functions: Mapping[str, Callable[[Sequence[Any]], Sequence]]):
        self.functions = functions
        self._queue: queue.Queue[_Job | None] = queue.Queue(QUEUE)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def submit(self, function: str, item: Any) -> Future:
        """The result of one item, when it is there.

        One that is cancelled while it waits is not worked on.

        Raises:
          BusyError: the queue is full.
        """
        job = _Job(function, item, Future())
        try:
            self._queue.put_nowait(job)
        except queue.Full as error:
            raise BusyError from error
        return job.future

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
            jobs = [job for job in jobs if job.future.set_running_or_notify_cancel()]
            for function in dict.fromkeys(job.function for job in jobs):
                self._do([job for job in jobs if job.function == function])
            if is_last:
                return

    def _do(self, jobs: Sequence[_Job]) -> None:
        try:
            results = self.functions[jobs[0].function]([job.item for job in jobs])
            pairs = [*zip(jobs, results, strict=True)]
        except Exception as error:  # a bug: its request fails, those beside it do not
            if len(jobs) == 1:
                jobs[0].future.set_exception(error)
            else:
                for job in jobs:
                    self._do([job])
            return
        for job, result in pairs:
            if isinstance(result, Exception):  # what was wrong with this item
                job.future.set_exception(result)
            else:
                job.future.set_result(result)
