"""Seconds of a call on a device, and many measurements within a limit of time."""

import math
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import jax

from research.contract.errors import UserError

MAX_THREADS = 8
"""The most programs that are compiled at once. On a GPU it is one: XLA chooses among
kernels by timing them there."""
DOES_NOT_FIT = "does not fit"
NO_TIME = "no time was left"
MAX_REASON = 120
"""Characters of what XLA says of a program that it does not compile or run."""

TURNS, TURN_SECONDS, MAX_CALLS = 3, 0.5, 100
"""A timing has TURNS turns of TURN_SECONDS, of MAX_CALLS calls at most."""


class Job(NamedTuple):
    """One measurement: `prepare()` compiles and returns a function that measures."""

    facts: dict[str, Any]  # what is measured, for the record
    prepare: Callable[[], Callable[[], dict[str, Any]]]


def run_jobs(jobs: Sequence[Job], seconds: float) -> list[dict[str, Any]]:
    """The record of each job: its facts, and its measurements or why there are none.

    Several are compiled at a time, in threads, and then measured; nothing compiles
    while a job is timed. What XLA or its libraries refuse costs no other job its
    figures.

    Args:
      seconds: time after which no further job is compiled; those that are will be
        measured.
    """
    deadline = time.monotonic() + seconds
    at_once = min(MAX_THREADS, os.cpu_count() or 1)
    if jax.default_backend() == "gpu":
        at_once = 1
    records = []
    with ThreadPoolExecutor(at_once) as pool:
        for start in range(0, len(jobs), at_once):
            chosen = jobs[start : start + at_once]
            if time.monotonic() > deadline:
                records += [job.facts | {"not_run": NO_TIME} for job in chosen]
                continue
            futures = [pool.submit(job.prepare) for job in chosen]
            wait(futures)
            for job, future in zip(chosen, futures, strict=True):
                records.append(job.facts | _measured(future))
    return records


def _measured(future: Future) -> dict[str, Any]:
    """The measurements of a prepared job, or why there are none."""
    try:
        return future.result()()
    except UserError as error:
        return {"not_run": str(error)}
    except RuntimeError as error:
        if is_out_of_memory(error):
            return {"not_run": DOES_NOT_FIT}
        if not isinstance(error, jax.errors.JaxRuntimeError):
            raise
        return {"not_run": str(error).splitlines()[0][:MAX_REASON]}


def is_out_of_memory(error: Exception) -> bool:
    """Whether XLA refused or stopped a program since memory was not sufficient."""
    return "RESOURCE_EXHAUSTED" in str(error)


def best_seconds(call: Callable[[], Any]) -> float:
    """Seconds of one call in the fastest turn, after a call to warm up.

    Other load on the machine only ever adds time.

    Args:
      call: dispatches work, and returns arrays that depend on it.
    """
    (seconds,) = best_seconds_of([call])
    return seconds


def best_seconds_of(calls: Sequence[Callable[[], Any]]) -> list[float]:
    """`best_seconds` of each of several calls, which take turns.

    Other load on the machine is the same for all.
    """
    counts = []
    for call in calls:
        jax.block_until_ready(call())
        began = time.monotonic()
        jax.block_until_ready(call())
        once = max(time.monotonic() - began, 1e-9)
        counts.append(max(1, min(MAX_CALLS, math.ceil(TURN_SECONDS / once))))
    best = [math.inf] * len(calls)
    for _ in range(TURNS):
        for number, (call, count) in enumerate(zip(calls, counts, strict=True)):
            began = time.monotonic()
            for _ in range(count):
                result = call()
            jax.block_until_ready(result)
            best[number] = min(best[number], (time.monotonic() - began) / count)
    return best
