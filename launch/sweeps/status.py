"""The status and logs of a sweep's trials, read only from their folders."""

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from launch.backends import attempt_log, run_attempt, scheduler
from launch.backends.attempt_log import Budget
from launch.sweeps.trial import Trial
from research.contract.errors import UserError
from research.files.json_files import read_file


def print_status(
    header: Mapping[str, Any], trials: Sequence[Trial], workdir: epath.Path, name: str
) -> None:
    """Prints one line for the sweep and one for each trial.

    Args:
      header: content of `sweep.json`.
      name: the beginning of an id, or part of a name; if given, a line is printed for
        each attempt at the selected trials.

    Raises:
      UserError: `name` selects no trial.
    """
    chosen = select(trials, name) if name else []
    num_done = sum(trial.done for trial in trials)
    driver_text, driver = "no driver is running", scheduler.current_driver(workdir)
    if driver:
        since = time.strftime("%d %b %H:%M", time.localtime(driver["since"]))
        driver_text = (
            f"driver: process {driver['pid']} on {driver['host']} since {since}"
        )
    budget = Budget(header["preemptions"], header["retries"], header["round"])
    jobs = scheduler.read_handles(workdir)
    found = [
        trial_status(trial, budget, submitted=trial.id in jobs) for trial in trials
    ]
    num_diverged = sum(state == "diverged" for state, _ in found)
    diverged = f", {num_diverged} diverged" if num_diverged else ""
    print(
        f"{header['sweep']}, scale {header['scale']}, on {header['on']}: {num_done} of "
        f"{len(trials)} trials have a result{diverged}; {driver_text}"
    )
    width = max((len(trial.name) for trial in trials), default=0)
    for trial, (state, details) in zip(trials, found, strict=True):
        print(f"{trial.id}  {state:8}  {trial.name:{width}}  {details}".rstrip())
    for trial in chosen:
        print(f"==> {trial.name}")
        for number, attempt in enumerate(attempt_log.read_attempts(trial.folder), 1):
            print(attempt_log.describe_attempt(number, attempt))


def trial_status(trial: Trial, budget: Budget, *, submitted: bool) -> tuple[str, str]:
    """A trial's state in one word, and details.

    Args:
      submitted: the backend had the trial when the driver last wrote `jobs.json`.
    """
    if trial.done:
        return "done", trial.summary
    attempts = attempt_log.read_attempts(trial.folder)
    step, num_steps = trial.progress
    at = f"step {step} of {num_steps}" if attempts else ""
    if attempts and attempts[-1].alive:
        last = attempts[-1]
        minutes = max(0.0, time.time() - last.processes[0].started) / 60
        where = f"on {', '.join(last.hosts)} for {minutes:.0f} min"
        return "running", f"{at}, {where}, attempt {len(attempts)}"
    ended = [attempt for attempt in attempts if not attempt.alive]
    reason = attempt_log.no_retry_reason(ended, budget)
    if trial.diverged:
        return "diverged", at or "what it starts from has diverged"
    if reason:
        return "failed", f"{at}, {reason}; see {run_attempt.log_path(trial.folder)}"
    unfinished = [parent.name for parent in trial.parents.values() if not parent.done]
    if unfinished:
        return "waiting", f"for {unfinished[0]}"
    if attempts:
        at = f"{at}, {attempt_log.describe_end(attempts[-1].root_cause)}"
    return ("queued" if submitted else "waiting"), at


def print_logs(trials: Sequence[Trial], *, name: str, num_lines: int) -> None:
    """Prints the last lines of the logs of trials that have no result.

    Args:
      name: the beginning of an id, or part of a name; if given, the selected trials are
        shown instead, done or not.
      num_lines: lines of each log; 0: all.

    Raises:
      UserError: `name` selects no trial.
    """
    chosen = select(trials, name) if name else [t for t in trials if not t.done]
    for trial in chosen:
        for path in sorted(trial.folder.glob("log*.txt")):
            print(f"==> {trial.name}: {shlex.quote(str(path))}")
            try:
                lines = read_file(path).decode(errors="replace").splitlines()
            except ValueError as error:
                raise UserError(f"{path} is {error}") from error
            print("\n".join(lines[-num_lines:] if num_lines else lines))


def select(trials: Sequence[Trial], name: str) -> list[Trial]:
    """The trials of the cell "ROW, GROUP".

    Else those whose id starts with `name`, or whose name contains it.

    Raises:
      UserError: there is none.
    """
    if chosen := [t for t in trials if t.row and name == f"{t.row}, {t.group}"]:
        return chosen
    chosen = [t for t in trials if t.id.startswith(name) or name in t.name]
    if not chosen:
        raise UserError(f"--trial={name}: no trial has this id or name; see `status`")
    return chosen
