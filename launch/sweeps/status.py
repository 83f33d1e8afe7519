"""What became of a sweep's trials so far, told from their folders alone."""

import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from etils import epath

from launch.backends import attempt_log, run_attempt, scheduler
from launch.backends.attempt_log import Budget
from launch.sweeps.trials import Trial
from research.errors import UserError


def show(
    head: Mapping[str, Any], planned: Sequence[Trial], workdir: epath.Path
) -> None:
    """Prints a line on the sweep and one a trial."""
    done = sum(trial.done for trial in planned)
    driver, who = "nobody drives it", scheduler.current_driver(workdir)
    if who:
        since = time.strftime("%d %b %H:%M", time.localtime(who["since"]))
        driver = f"driven by process {who['pid']} on {who['host']} since {since}"
    print(
        f"{head['sweep']}, scale {head['scale']}, on {head['on']}: {done} of "
        f"{len(planned)} trials have a result; {driver}"
    )
    budget = Budget(head["preemptions"], head["retries"], head["round"])
    jobs = scheduler.read_handles(workdir)
    width = max(len(trial.name) for trial in planned)
    for trial in planned:
        state, more = of(trial, budget, handed_over=trial.id in jobs)
        print(f"{trial.id}  {state:8}  {trial.name:{width}}  {more}".rstrip())


def of(trial: Trial, budget: Budget, *, handed_over: bool) -> tuple[str, str]:
    """A trial's state in a word, and more about it.

    Args:
      handed_over: the engine had it when the driver wrote last.
    """
    if trial.done:
        return "done", trial.summary
    attempts = attempt_log.read_attempts(trial.folder)
    step, total = trial.progress
    at = f"step {step} of {total}" if attempts else ""
    if attempts and attempts[-1].alive:
        last = attempts[-1]
        minutes = (time.time() - last.processes[0].started) / 60
        began = f"on {', '.join(last.hosts)} for {minutes:.0f} min"
        return "running", f"{at}, {began}, attempt {len(attempts)}"
    ended = [a for a in attempts if not a.alive]
    why = attempt_log.no_retry_reason(ended, budget)
    if why:
        return "failed", f"{at}, {why}; see {run_attempt.log_path(trial.folder)}"
    lost = [parent.name for parent in trial.parents.values() if not parent.done]
    if lost:
        return "waiting", f"for {lost[0]}"
    if attempts:
        at = f"{at}, {attempt_log.describe_end(attempts[-1].root_cause)}"
    return ("queued" if handed_over else "waiting"), at


def logs(planned: Sequence[Trial], *, named: str, lines: int) -> None:
    """Prints the end of the logs of trials that have begun and have no result.

    Args:
      named: an id's beginning or a part of a name: the trials to tell of instead.
      lines: how many of each log; 0: all.

    Raises:
      UserError: no trial is named so.
    """
    if named:
        chosen = [t for t in planned if t.id.startswith(named) or named in t.name]
        if not chosen:
            raise UserError(f"--trial={named}: no trial's id or name; see `status`")
    else:
        chosen = [trial for trial in planned if not trial.done]
    for trial in chosen:
        for path in sorted(trial.folder.glob("log*.txt")):
            print(f"==> {trial.name}: {shlex.quote(str(path))}")
            text = path.read_text().splitlines()
            print("\n".join(text[-lines:] if lines else text))
