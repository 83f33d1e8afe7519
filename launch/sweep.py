r"""Runs the trials of a sweep that have no result yet, on this machine or a backend.

    palimpsest sweep --sweep=experiments/sweeps/objectives.py --workdir=runs/mine
    palimpsest sweep --config=experiments/mlm.py --sweep_keys=objective.rate=.15,.3,.5 \
        --seeds=3 --workdir=runs/rates                    (without a file of its own)
    palimpsest sweep status --workdir=runs/mine     (also: resume, logs, stop)
    palimpsest sweep status --workdir=runs/mine --trial=NAME  (each attempt at it)
    palimpsest sweep resume --workdir=runs/mine --trial=NAME  (only this trial and
                                                             what it starts from)

A sweep file defines `sweep(scale)`, which yields pairs (experiment, overrides). An
override whose value is such a pair stands for the folder of that trial, which is run
first. --config.KEY=VALUE applies to the trials that do not set KEY themselves; a trial
that starts from another one keeps that one's network. KEY is rejected if the
pretrainings of only some rows set it, since the rows would differ in it.
`sweep(scale, tasks)` also fine-tunes on the tasks of --tasks=FILE (docs/tables.md).

--on names a backend, such as slurm:PARTITION; it restarts a trial that was preempted,
and the trial resumes from its checkpoint. The state of a sweep is kept in files of the
workdir: `resume` continues after the driver has died, with the sweep's own flags except
--parallel, --retries and --preemptions; `status` and `logs` need no driver; `stop` ends
the driver and its jobs.
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
from launch.backends.attempt_log import read_attempts
from launch.sweeps import status, sweep_plan
from launch.sweeps.grid import grid
from launch.sweeps.scales import SCALES
from launch.sweeps.tasks import load_tasks
from launch.sweeps.trial import Trial
from research.contract.errors import UserError, unknown
from research.files.existence import exists
from research.files.paths import absolute_path

GRID_SEEDS = 3
"""Seeds per row of --config, unless --seeds says otherwise."""
LIMITS = tuple(f"--{name}" for name in submit.MIN_VALUES)
READS = {
    "status": ("--trial",),
    "resume": ("--trial", "--dry_run", *LIMITS),
    "logs": ("--trial", "--lines"),
    "stop": (),
}
"""Action -> flags that it reads in addition to --workdir; `run`: all but --lines."""

ACTIONS = ("run", *READS)
SILENCE = (
    "; a trial starts Python, reads its text (the first one trains the vocabulary) and "
    "compiles before its first step"
)
"""Why no steps of a trial are reported at first."""


def run(args: argparse.Namespace) -> int:
    """Runs one action of the command line."""
    exists(args.workdir)  # or this machine cannot read that bucket
    if args.action == "run":
        return _run(args)
    header = sweep_plan.read_header(args.workdir)
    trials = sweep_plan.read_plan(args.workdir)
    workdir = absolute_path(args.workdir)
    match args.action:
        case "status":
            status.print_status(header, trials, workdir, args.trial)
        case "logs":
            status.print_logs(trials, name=args.trial, num_lines=args.lines)
        case "stop":
            _stop(submit.make_backend(header), workdir)
        case "resume":
            limits = submit.read_limits(args)
            header |= {k: v for k, v in limits.items() if f"--{k}" in args.given}
            header |= {"round": header["round"] + 1}
            if args.dry_run:
                submit.print_plan(_needed(trials, args.trial), header, header["round"])
                return cli.DONE
            with scheduler.only_driver(workdir):
                return _drive(header, trials, workdir, args.trial)
    return cli.DONE


def _run(args: argparse.Namespace) -> int:
    """Plans a sweep, then shows it (--dry_run) or runs it."""
    if bool(args.sweep) == bool(args.config):
        raise UserError(
            "give --sweep=F, a file of experiments/sweeps, or --config=F and "
            "--sweep_keys=KEY=VALUE,VALUE"
        )
    if args.sweep and args.sweep_keys:
        raise UserError("--sweep_keys needs --config=F; leave it out with --sweep")
    sweep = None
    if args.config:
        sweep = grid(args.config, args.sweep_keys, args.seeds or GRID_SEEDS)
    tasks = load_tasks(args.tasks) if args.tasks else {}
    file = args.sweep or args.config
    header = {"sweep": file, "scale": args.scale, **submit.read_flags(args)}
    header["tasks"] = {name: task._asdict() for name, task in tasks.items()}
    backend = submit.make_backend(header)  # reports a wrong flag before it plans
    trials = sweep_plan.make_plan(
        file,
        args.workdir,
        sweep,
        scale=args.scale,
        shared=args.overrides,
        tasks=tasks,
        first_seed=args.first_seed,
        seeds=args.seeds,
    )
    if args.dry_run:
        needed = _needed(trials, args.trial)
        submit.print_plan(needed, header, round=1)
        if getattr(backend, "reads_our_files", False):
            from launch.sweeps.text_files import check_text_files  # imports JAX

            check_text_files(needed)
        return cli.DONE
    workdir = absolute_path(args.workdir)
    with scheduler.only_driver(workdir):
        attempts = (each for trial in trials for each in read_attempts(trial.folder))
        last_round = max((attempt.round for attempt in attempts), default=0)
        return _drive(header | {"round": last_round + 1}, trials, workdir, args.trial)


def _needed(trials: list[Trial], name: str) -> list[Trial]:
    """The trials that --trial selects, and those that they start from; "": all.

    Raises:
      UserError: no trial is selected.
    """
    chosen = status.select(trials, name) if name else trials
    needed = {each.id for trial in chosen for each in trial.with_ancestors()}
    return [trial for trial in trials if trial.id in needed]


def _drive(
    header: dict[str, Any], trials: list[Trial], workdir: epath.Path, name: str
) -> int:
    """Writes `sweep.json`, then runs the needed trials that have no result."""
    jobs = _needed(trials, name)
    fields = {name: value for name, value in header.items() if name != "trials"}
    sweep_plan.write_plan(trials, workdir, **fields)
    return submit.run_jobs(
        jobs,
        header,
        workdir=workdir,
        round=header["round"],
        noun="trials",
        hint=SILENCE,
    )


def _stop(backend: Any, workdir: epath.Path) -> None:
    """Ends the driver, if one is running, and cancels the jobs that it submitted.

    Raises:
      UserError: the driver is on another machine, or the sweep was only rendered.
    """
    if hasattr(backend, "render"):
        raise UserError(
            f"the sweep of {workdir} was rendered as files; stop it where it runs"
        )
    driver = scheduler.current_driver(workdir)
    if driver:
        if driver["host"] != socket.gethostname():
            raise UserError(
                f"{workdir} is driven by process {driver['pid']} on {driver['host']}; "
                "run `stop` there"
            )
        os.kill(driver["pid"], signal.SIGTERM)
        while scheduler.current_driver(workdir) == driver:
            time.sleep(0.1)
    backend.cancel(scheduler.read_handles(workdir).values())
    scheduler.clear_handles(workdir)


class Parser(cli.Parser):
    """Also takes an action as the first argument."""

    def parse_args(self, args=None, namespace=None):
        arguments = list(sys.argv[1:] if args is None else args)
        has_action = bool(arguments) and not arguments[0].startswith("-")
        action = arguments.pop(0) if has_action else "run"
        if action not in ACTIONS:
            raise unknown("action", action, ACTIONS)
        namespace = super().parse_args(arguments, namespace)
        words = (word.partition("=")[0] for word in arguments)
        namespace.given = [word for word in words if word.startswith("--")]
        for flag in namespace.given:
            _check_read(action, flag)
        namespace.action = action
        return namespace


def _check_read(action: str, flag: str) -> None:
    """Raises UserError if an action does not read a flag."""
    if action == "run" and flag == "--lines":
        raise UserError("--lines is read only by logs")
    if action != "run" and flag not in (read := ("--workdir", *READS[action])):
        raise UserError(f"{action} does not read {flag}; it reads {', '.join(read)}")


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_path("--sweep", help="a file of experiments/sweeps")
    parser.add_path("--config", default="", help="an experiment, without --sweep")
    parser.add_argument(
        "--sweep_keys",
        action="append",
        default=[],
        metavar="KEY=VALUE,VALUE",
        help="values to run --config with; repeated: all combinations",
    )
    parser.add_argument(
        "--seeds",
        type=cli.whole(1),
        default=None,
        help=f"seeds per row; by default all of --sweep, {GRID_SEEDS} of --config",
    )
    parser.add_path("--workdir", required=True, help="folder of the trials")
    parser.add_argument("--scale", default="smoke", help=" | ".join(SCALES))
    parser.add_argument(
        "--dry_run", action="store_true", help="run, resume: only list the trials"
    )
    parser.add_path("--tasks", default="", help="TOML file of tasks to fine-tune on")
    parser.add_argument(
        "--first_seed",
        type=cli.whole(0),
        default=0,
        help="added to every seed, for a repeat with other seeds",
    )
    parser.add_argument(
        "--trial", default="", help="trial by id or name; all actions but stop"
    )
    parser.add_argument(
        "--lines", type=cli.whole(0), default=10, help="logs: number of lines; 0: all"
    )
    submit.add_flags(parser)
    return parser


if __name__ == "__main__":
    cli.main(run, parser(), resumes=True)
