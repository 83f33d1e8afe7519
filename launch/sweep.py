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
import signal
import socket
import sys
import time
from typing import Any

from etils import epath

from launch import cli
from launch.backends import scheduler, submit
from launch.backends.backend import absolute_path
from launch.sweeps import status, trials
from launch.sweeps.trials import Trial
from research.errors import UserError, unknown

ACTIONS = ("run", "status", "resume", "logs", "stop")


def run(args: argparse.Namespace) -> int:
    """Does what a command line says."""
    _reach(args.workdir)
    if args.action == "run":
        return _run(args)
    head, planned = trials.header(args.workdir), trials.read(args.workdir)
    workdir = absolute_path(args.workdir)
    match args.action:
        case "status":
            status.show(head, planned, workdir)
        case "logs":
            status.logs(planned, named=args.trial, lines=args.lines)
        case "stop":
            _stop(submit.make_backend(head), workdir)
        case "resume":
            with scheduler.only_driver(workdir):
                return _drive(head | {"round": head["round"] + 1}, planned, workdir)
    return cli.DONE


def _run(args: argparse.Namespace) -> int:
    """Plans a sweep, and shows or runs it."""
    if args.sweep is None:
        raise UserError("--sweep is missing; give a file of experiments/sweeps")
    head = {"sweep": args.sweep, "scale": args.scale, **submit.read_flags(args)}
    submit.make_backend(head)  # what is wrong with it is told at once
    planned = trials.plan(
        args.sweep, args.workdir, scale=args.scale, shared=args.overrides
    )
    if args.dry_run:
        submit.print_plan(planned, head, round=1)
        return cli.DONE
    workdir = absolute_path(args.workdir)
    with scheduler.only_driver(workdir):
        before = 0
        if (workdir / "sweep.json").exists():
            before = trials.header(workdir).get("round", 0)
        return _drive(head | {"round": before + 1}, planned, workdir)


def _drive(head: dict[str, Any], planned: list[Trial], workdir: epath.Path) -> int:
    """Runs what has no result on the engine that `head` names, and keeps `head`."""
    kept = {name: value for name, value in head.items() if name != "trials"}
    trials.write(planned, workdir, **kept)
    return submit.run_jobs(
        planned, head, workdir=workdir, round=head["round"], noun="trials"
    )


def _stop(engine: Any, workdir: epath.Path) -> None:
    """Ends the driver, if there is one, and the jobs that it has handed over.

    Raises:
      UserError: the driver is on another machine, or there is nothing to end here.
    """
    if hasattr(engine, "render"):
        raise UserError(f"the sweep of {workdir} was rendered: stop it where it runs")
    who = scheduler.current_driver(workdir)
    if who:
        if who["host"] != socket.gethostname():
            raise UserError(f"process {who['pid']} on {who['host']} runs {workdir}")
        os.kill(who["pid"], signal.SIGTERM)
        while scheduler.current_driver(workdir) == who:
            time.sleep(0.1)
    engine.cancel(scheduler.read_handles(workdir).values())
    scheduler.clear_handles(workdir)


def _reach(workdir: str) -> None:
    """Touches a bucket.

    Raises:
      UserError: it cannot be reached from here.
    """
    if "://" not in workdir:
        return
    try:
        absolute_path(workdir).exists()
    except Exception as error:  # of whichever library serves the address
        reason = str(error).splitlines()[0]
        raise UserError(f"--workdir={workdir} is out of reach ({reason})") from error


class Parser(cli.Parser):
    """Also takes an action as the first word."""

    def parse_args(self, args=None, namespace=None):
        words = list(sys.argv[1:] if args is None else args)
        named = bool(words) and not words[0].startswith("-")
        action = words.pop(0) if named else "run"
        if action not in ACTIONS:
            raise unknown("action", action, ACTIONS)
        namespace = super().parse_args(words, namespace)
        if action != "run" and namespace.overrides:
            raise UserError(f"{action} takes the sweep's own config, no --config")
        namespace.action = action
        return namespace


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--sweep", help="a file of experiments/sweeps")
    parser.add_argument("--workdir", required=True, help="where the trials' folders go")
    parser.add_argument("--scale", default="smoke", help=" | ".join(trials.SCALES))
    parser.add_argument("--dry_run", action="store_true", help="show the trials alone")
    parser.add_argument("--trial", default="", help="logs: of which, by id or name")
    parser.add_argument("--lines", type=int, default=10, help="logs: how many; 0: all")
    submit.add_flags(parser)
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
