"""Runs jobs on the backend that command-line flags choose."""

import argparse
import dataclasses
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from launch import cli, signals
from launch.backends import run_attempt
from launch.backends.attempt_log import Budget
from launch.backends.backend import (
    FOLDER,
    Job,
    ManifestBackend,
    backend_flags,
    load_backend,
    wave_folders,
)
from launch.backends.progress import JobProgress
from launch.backends.resources import Resources
from launch.backends.scheduler import Scheduler
from research.contract.errors import UserError
from research.files.paths import is_in_bucket

MIN_VALUES = {"parallel": 1, "retries": 0, "preemptions": 0}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags for the backend, and for each job's resources and restarts.

    `read_flags` reads them.
    """
    add = parser.add_argument_group("backends").add_argument
    add("--on", default="local", help="; ".join(FOLDER.lines().values()))
    add(
        "--parallel",
        type=int,
        help="jobs at a time; default: on this machine 1, else all",
    )
    add("--retries", type=int, default=3, help="of each job, after a failure")
    add("--preemptions", type=int, default=100, help="of each job, at most")
    add = parser.add_argument_group("resources of each job").add_argument
    add("--hosts", type=int, default=1)
    add("--cpus", type=int, default=1, help="of each host")
    add("--gpus", type=int, default=0, help="of each host")
    add("--slice", default="", help="a TPU slice, such as v5e:16x16")
    for name in FOLDER.names():
        add = parser.add_argument_group(f"--on={name}").add_argument
        for field in backend_flags(name):
            value_type, text = type(field.default), field.metadata["help"]
            add(f"--{name}.{field.name}", type=value_type, help=text)


def read_flags(args: argparse.Namespace) -> dict[str, Any]:
    """The values of the flags of `add_flags`, as JSON types.

    Raises:
      UserError: a number is too small.
    """
    given = vars(args)
    resources = [field.name for field in dataclasses.fields(Resources)]
    return {
        "on": args.on,
        "resources": {name: given[name] for name in resources},
        "flags": {k: v for k, v in given.items() if "." in k and v is not None},
        **read_limits(args),
    }


def read_limits(args: argparse.Namespace) -> dict[str, Any]:
    """The values of --parallel, --retries and --preemptions.

    Raises:
      UserError: a number is too small.
    """
    limits = {name: getattr(args, name) for name in MIN_VALUES}
    for name, least in MIN_VALUES.items():
        if limits[name] is not None and limits[name] < least:
            raise UserError(f"--{name}={limits[name]}: it is at least {least}")
    return limits


def make_backend(flags: Mapping[str, Any]) -> Any:
    """The backend of the flags that `read_flags` returned.

    Raises:
      UserError: as `load_backend`.
    """
    resources = Resources(**flags["resources"])
    return load_backend(flags["on"], resources, flags["flags"])


def run_jobs(
    jobs: Sequence[Job],
    flags: Mapping[str, Any],
    *,
    workdir: epath.Path,
    round: int,
    noun: str,
    hint: str = "",
) -> int:
    """Runs the jobs that have no result, or writes their manifests.

    Args:
      flags: the result of `read_flags`.
      round: see `Budget`.
      noun: the word for the jobs in messages.
      hint: what the first line also says, after how many there are.

    Returns:
      an exit code.
    """
    backend, budget = make_backend(flags), _budget(flags, round)
    todo = [job for job in jobs if not job.done]
    if hasattr(backend, "render"):
        name = flags["on"].partition(":")[0]
        local = not is_in_bucket(workdir)
        folder = workdir / name if local else epath.Path("runs") / workdir.name / name
        _write_manifests(todo, backend, budget, folder, noun)
        return cli.DONE
    if flags["parallel"] and 0 < backend.max_parallel < flags["parallel"]:
        raise UserError(
            f"--parallel={flags['parallel']}: this machine has cores for "
            f"{backend.max_parallel} jobs at a time"
        )
    signals.raise_interrupts()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    progress = JobProgress(noun, len(jobs), len(jobs) - len(todo))
    parallel = flags["parallel"]
    scheduler = Scheduler(
        todo, backend, progress, workdir=workdir, budget=budget, parallel=parallel
    )
    if todo:
        at_once = min(scheduler.parallel, len(todo))
        progress.log(f"{len(todo)} {noun} to run, {at_once} at a time{hint}")
    with progress.bars:
        failed = scheduler.run()
    for job, reason in failed.items():
        log = run_attempt.log_path(job.folder)
        print(f"error: {job.name}: {reason}; see {log}", file=sys.stderr)
    print(f"{len(jobs) - len(failed)} of {len(jobs)} {noun} have a result")
    return cli.FAILED if failed else cli.DONE


def print_plan(jobs: Sequence[Job], flags: Mapping[str, Any], round: int) -> None:
    """Prints what `run_jobs` would run or write."""
    for job in jobs:
        print(f"{job.id}  {'done' if job.done else 'to do'}  {job.name}")
        words = job.command
        if words[:3] == ["python", "-m", "launch.train"]:
            words = ["palimpsest", "train", *words[3:]]
        print("   ", shlex.join(words))
    backend = make_backend(flags)
    if hasattr(backend, "render"):
        todo = [job for job in jobs if not job.done]
        files = backend.render(dependency_waves(todo), _budget(flags, round))
        for file, text in files.items():
            print(f"# {file}\n{text}")


def dependency_waves(jobs: Sequence[Job]) -> list[list[Job]]:
    """Groups jobs by the longest chain of parents that must run before them."""
    depth: dict[Job, int] = {}
    for job in jobs:
        above = [depth[parent] for parent in job.parents.values() if parent in depth]
        depth[job] = 1 + max(above, default=-1)
    waves = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for job, number in depth.items():
        waves[number].append(job)
    return waves


def _budget(flags: Mapping[str, Any], round: int) -> Budget:
    return Budget(flags["preemptions"], flags["retries"], round)


def _write_manifests(
    jobs: Sequence[Job],
    backend: ManifestBackend,
    budget: Budget,
    folder: epath.Path,
    noun: str,
) -> None:
    """Writes the backend's files, and prints the commands that run them."""
    files = backend.render(dependency_waves(jobs), budget)
    for old in wave_folders(folder).values():
        old.rmtree()
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    print(f"{len(jobs)} {noun} in {folder}; run them with")
    for line in backend.instructions(folder):
        print(f"  {line}")
