"""Tasks from a command line to their results: the flags of engines, and what runs."""

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from launch import backends, cli
from launch.backends import Task, run_attempt
from launch.backends.attempt_log import Budget
from launch.backends.progress import Board
from launch.backends.resources import Need
from launch.backends.scheduler import Runner
from research.errors import UserError

NEEDS = ("hosts", "cpus", "gpus", "slice")
LEAST = {"parallel": 1, "retries": 0, "preemptions": 0}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that say where tasks run, and how often they may be restarted."""
    add = parser.add_argument_group("engines").add_argument
    add("--on", default="local", help="local | ray[://HOST] | slurm:PARTITION | ...")
    add("--parallel", type=int, help="at a time; local: 1, others: all there are")
    add("--retries", type=int, default=3, help="of each, after a failure")
    add("--preemptions", type=int, default=100, help="of each, before it is left")
    add = parser.add_argument_group("what each one needs of an engine").add_argument
    add("--hosts", type=int, default=1)
    add("--cpus", type=int, default=1, help="of each host")
    add("--gpus", type=int, default=0, help="of each host")
    add("--slice", default="", help="a TPU slice, such as v5e:16x16")
    for name in (*backends.RUNNING, *backends.RENDERED):
        add = parser.add_argument_group(f"--on={name}").add_argument
        for field in backends.options(name):
            kind, said = type(field.default), field.metadata["help"]
            add(f"--{name}.{field.name}", type=kind, help=said)


def read_flags(args: argparse.Namespace) -> dict[str, Any]:
    """The values of those flags, as JSON holds them.

    Raises:
      UserError: a number that is too small.
    """
    given = vars(args)
    for name, least in LEAST.items():
        if given[name] is not None and given[name] < least:
            raise UserError(f"--{name}={given[name]}: it is at least {least}")
    return {
        "on": args.on,
        "need": {name: given[name] for name in NEEDS},
        "flags": {k: v for k, v in given.items() if "." in k and v is not None},
        **{name: given[name] for name in LEAST},
    }


def engine(flags: Mapping[str, Any]) -> Any:
    """The engine of what `read_flags` read.

    Raises:
      UserError: there is none like it.
    """
    return backends.load(flags["on"], Need(**flags["need"]), flags["flags"])


def budget(flags: Mapping[str, Any], round: int) -> Budget:
    return Budget(flags["preemptions"], flags["retries"], round)


def drive(
    tasks: Sequence[Task],
    flags: Mapping[str, Any],
    *,
    workdir: epath.Path,
    round: int,
    noun: str,
) -> int:
    """Runs the tasks that have no result, or renders them; returns an exit code.

    Args:
      noun: what people call the tasks.
    """
    chosen, limits = engine(flags), budget(flags, round)
    todo = [task for task in tasks if not task.done]
    if hasattr(chosen, "render"):
        return _render(todo, chosen, limits, workdir, noun)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    board = Board(noun, len(tasks), len(tasks) - len(todo))
    with board.bars:
        parallel = flags["parallel"]
        failed = Runner(
            todo, chosen, board, workdir=workdir, budget=limits, parallel=parallel
        ).run()
    for task, why in failed.items():
        where = run_attempt.log(task.folder)
        print(f"error: {task.name}: {why}; see {where}", file=sys.stderr)
    print(f"{len(tasks) - len(failed)} of {len(tasks)} {noun} have a result")
    return cli.FAILED if failed else cli.DONE


def show(tasks: Sequence[Task], flags: Mapping[str, Any], round: int) -> None:
    """Prints what `drive` would run."""
    for task in tasks:
        print(f"{task.id}  {'done' if task.done else 'to do'}  {task.name}")
        print("   ", shlex.join(task.command))
    chosen = engine(flags)
    if hasattr(chosen, "render"):
        todo = [task for task in tasks if not task.done]
        for file, text in chosen.render(waves(todo), budget(flags, round)).items():
            print(f"# {file}\n{text}")


def waves(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks by how many have to be run before them, one after the other."""
    level: dict[Task, int] = {}
    for task in tasks:
        above = [level[parent] for parent in task.parents.values() if parent in level]
        level[task] = 1 + max(above, default=-1)
    found = [[] for _ in range(1 + max(level.values(), default=-1))]
    for task, number in level.items():
        found[number].append(task)
    return found


def _render(
    todo: Sequence[Task],
    chosen: backends.Rendered,
    limits: Budget,
    workdir: epath.Path,
    noun: str,
) -> int:
    """Writes the engine's files, and says which commands take them."""
    name = type(chosen).__module__.rpartition(".")[2]
    local = "://" not in os.fspath(workdir)
    folder = workdir / name if local else epath.Path("runs") / workdir.name / name
    files = chosen.render(waves(todo), limits)
    for old in folder.glob("wave-*"):
        old.rmtree()
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{len(todo)} {noun} in {folder}; run them with")
    for line in chosen.advice(folder):
        print(f"  {line}")
    return cli.DONE
