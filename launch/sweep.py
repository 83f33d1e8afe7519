"""Runs the trials of a sweep that have no result yet, here or on an engine.

    python -m launch.sweep --sweep=experiments/sweeps/objectives.py --workdir=runs/mine
    python -m launch.sweep status --workdir=runs/mine     (also: resume, logs, stop)

A sweep file defines `sweep(scale)`, which yields pairs (experiment, overrides). Where
an override's value is such a pair itself, it stands for that trial's folder, and waits
for it. A --config.KEY=VALUE reaches the trials that do not set KEY themselves.

--on: local | ray | ray://HOST | slurm:PARTITION | gke:QUEUE | sky:INFRA. The engine
starts again what is preempted, the trial goes on from its own checkpoint. All is told
by files in the workdir: `resume` takes over where a driver died, `status` and `logs`
need no driver, `stop` ends what runs.
"""

import argparse
import os
import shlex
import signal
import socket
import sys
import time
from typing import Any

from etils import epath

import launch
from launch import engines, status, trials
from launch.engines import attempt, runner
from launch.engines.board import Board
from launch.engines.need import Need
from launch.engines.record import Budget
from launch.trials import Trial
from research.errors import UserError, unknown

ACTIONS = ("run", "status", "resume", "logs", "stop")
KEPT = ("sweep", "scale", "on", "need", "flags", "parallel", "retries", "preemptions")
"""Of a command line, what `sweep.json` keeps for those who go on."""


def run(args: argparse.Namespace) -> int:
    """Does what a command line says."""
    _reach(args.workdir)
    if args.action == "run":
        return _run(args)
    head, planned = trials.header(args.workdir), trials.read(args.workdir)
    workdir = trials.root(args.workdir)
    match args.action:
        case "status":
            status.show(head, planned, workdir)
        case "logs":
            status.logs(planned, named=args.trial, lines=args.lines)
        case "stop":
            _stop(_engine(head), workdir)
        case "resume":
            with runner.driving(workdir):
                return _drive(head | {"round": head["round"] + 1}, planned, workdir)
    return launch.DONE


def _run(args: argparse.Namespace) -> int:
    """Plans a sweep, and shows or runs it."""
    if args.sweep is None:
        raise UserError("--sweep is missing; give a file of experiments/sweeps")
    for name, least in {"parallel": 1, "retries": 0, "preemptions": 0}.items():
        if getattr(args, name) is not None and getattr(args, name) < least:
            raise UserError(f"--{name}={getattr(args, name)}: it is at least {least}")
    head = {name: getattr(args, name) for name in KEPT} | {"round": 1}
    engine = _engine(head)
    planned = trials.plan(
        args.sweep, args.workdir, scale=args.scale, shared=args.overrides
    )
    if args.dry_run:
        _show(planned, engine, _budget(head))
        return launch.DONE
    workdir = trials.root(args.workdir)
    with runner.driving(workdir):
        if (workdir / "sweep.json").exists():
            head["round"] += trials.header(workdir).get("round", 0)
        return _drive(head, planned, workdir)


def _drive(head: dict[str, Any], planned: list[Trial], workdir: epath.Path) -> int:
    """Runs what has no result, or renders it, on the engine that `head` names."""
    head.pop("trials", None)
    trials.write(planned, workdir, **head)
    engine, budget = _engine(head), _budget(head)
    todo = [trial for trial in planned if not trial.done]
    if hasattr(engine, "render"):
        return _render(todo, engine, budget, workdir)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    board = Board(len(planned), len(planned) - len(todo))
    with board.bars:
        failed = runner.Runner(
            todo,
            engine,
            board,
            workdir=workdir,
            budget=budget,
            parallel=head["parallel"],
        ).run()
    for trial, why in failed.items():
        where = attempt.log(trial.folder)
        print(f"error: {trial.name}: {why}; see {where}", file=sys.stderr)
    print(f"{len(planned) - len(failed)} of {len(planned)} trials have a result")
    return launch.FAILED if failed else launch.DONE


def _render(
    todo: list[Trial], engine: engines.Rendered, budget: Budget, workdir: epath.Path
) -> int:
    """Writes the engine's files, and says which commands take them."""
    name = type(engine).__module__.rpartition(".")[2]
    local = "://" not in os.fspath(workdir)
    folder = workdir / name if local else epath.Path("runs") / workdir.name / name
    files = engine.render(waves(todo), budget)
    for old in folder.glob("wave-*"):
        old.rmtree()
    for file, text in files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    print(f"{len(todo)} trials in {folder}; run them with")
    for line in engine.advice(folder):
        print(f"  {line}")
    return launch.DONE


def waves(todo: list[Trial]) -> list[list[Trial]]:
    """Trials by how many have to be run before them, one after the other."""
    level: dict[Trial, int] = {}
    for trial in todo:
        above = [level[parent] for parent in trial.parents.values() if parent in level]
        level[trial] = 1 + max(above, default=-1)
    found = [[] for _ in range(1 + max(level.values(), default=-1))]
    for trial, number in level.items():
        found[number].append(trial)
    return found


def _show(planned: list[Trial], engine: Any, budget: Budget) -> None:
    for trial in planned:
        print(f"{trial.id}  {'done' if trial.done else 'to do'}  {trial.name}")
        print("   ", shlex.join(trial.command))
    if hasattr(engine, "render"):
        todo = [trial for trial in planned if not trial.done]
        for file, text in engine.render(waves(todo), budget).items():
            print(f"# {file}\n{text}")


def _stop(engine: Any, workdir: epath.Path) -> None:
    """Ends the driver, if there is one, and the jobs that it has handed over.

    Raises:
      UserError: the driver is on another machine, or there is nothing to end here.
    """
    if hasattr(engine, "render"):
        raise UserError(f"the sweep of {workdir} was rendered: stop it where it runs")
    who = runner.driver(workdir)
    if who:
        if who["host"] != socket.gethostname():
            raise UserError(f"process {who['pid']} on {who['host']} runs {workdir}")
        os.kill(who["pid"], signal.SIGTERM)
        while runner.driver(workdir) == who:
            time.sleep(0.1)
    engine.cancel(runner.jobs(workdir).values())
    runner.forget(workdir)


def _reach(workdir: str) -> None:
    """Touches a bucket.

    Raises:
      UserError: it cannot be reached from here.
    """
    if "://" not in workdir:
        return
    try:
        trials.root(workdir).exists()
    except Exception as error:  # of whichever library serves the address
        reason = str(error).splitlines()[0]
        raise UserError(f"--workdir={workdir} is out of reach ({reason})") from error


def _engine(head: dict[str, Any]) -> Any:
    return engines.load(head["on"], Need(**head["need"]), head["flags"])


def _budget(head: dict[str, Any]) -> Budget:
    return Budget(head["preemptions"], head["retries"], head["round"])


class Parser(launch.Parser):
    """Also takes an action as the first word, and the flags of all engines."""

    def parse_args(self, args=None, namespace=None):
        words = list(sys.argv[1:] if args is None else args)
        named = bool(words) and not words[0].startswith("-")
        action = words.pop(0) if named else "run"
        if action not in ACTIONS:
            raise unknown("action", action, ACTIONS)
        namespace = super().parse_args(words, namespace)
        if named and action != "run" and namespace.overrides:
            raise UserError(f"{action} takes the sweep's own config, no --config")
        given = vars(namespace)
        namespace.action = action
        namespace.flags = {k: v for k, v in given.items() if "." in k and v is not None}
        names = ("hosts", "cpus", "gpus", "slice")
        namespace.need = {name: given[name] for name in names}
        return namespace


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--sweep", help="a file of experiments/sweeps")
    parser.add_argument("--workdir", required=True, help="where the trials' folders go")
    parser.add_argument("--scale", default="smoke", help=" | ".join(trials.SCALES))
    parser.add_argument("--on", default="local", help="the engine, see above")
    parser.add_argument(
        "--parallel", type=int, help="trials at a time; local: 1, others: all there are"
    )
    parser.add_argument(
        "--retries", type=int, default=3, help="of each trial, after a failure"
    )
    parser.add_argument(
        "--preemptions", type=int, default=100, help="of each trial, before it is left"
    )
    parser.add_argument("--dry_run", action="store_true", help="show the trials alone")
    parser.add_argument("--trial", default="", help="logs: of which, by id or name")
    parser.add_argument("--lines", type=int, default=10, help="logs: how many; 0: all")
    needs = parser.add_argument_group("what each trial needs of an engine")
    needs.add_argument("--hosts", type=int, default=1)
    needs.add_argument("--cpus", type=int, default=1, help="of each host")
    needs.add_argument("--gpus", type=int, default=0, help="of each host")
    needs.add_argument("--slice", default="", help="a TPU slice, such as v5e:16x16")
    for name in (*engines.RUNNING, *engines.RENDERED):
        for field in engines.options(name):
            parser.add_argument(
                f"--{name}.{field.name}",
                type=type(field.default),
                help=field.metadata["help"],
            )
    return parser


if __name__ == "__main__":
    launch.main(run, parser())
