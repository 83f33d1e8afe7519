"""Damaged files of a finished run and of a finished sweep."""

import contextlib
import functools
import itertools
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
from etils import epath
from hypothesis import strategies as st

from launch import cli, report, sweep, table, train
from launch.backends import scheduler
from launch.backends.attempt_log import ProcessRecord
from launch.config import flatten
from research.distributed.file_lock import file_lock
from research.run import compiled_phases
from research.run.phases import Phase
from tests.proofs.fuzz import command
from tests.proofs.fuzz.command_cases import finished_sweep, replaced
from tests.proofs.fuzz.damage import DAMAGES, ODD_VALUES, damage
from tests.testing import fake_sweep, tiny_runs

RUN_COMMANDS = ("train", "init_from")
RUN_FILES = (
    "config.json",
    "result.json",
    "metrics.jsonl",
    "speed.jsonl",
    "provenance.json",
    "tensorboard",
    "checkpoints",
    "checkpoints/12",
    "checkpoints/12/checksums.json",
    "checkpoints/12/facts/metadata",
    "checkpoints/12/params",
    "checkpoints/12/params/manifest.ocdbt",
    "checkpoints/12/rest/_METADATA",
    "checkpoints/12/_CHECKPOINT_METADATA",
    "checkpoints/10",
    "checkpoints/10/checksums.json",
)
SWEEP_COMMANDS = ("status", "logs", "stop", "resume", "run", "table", "report")
SWEEP_FILES = (
    "sweep.json",
    "jobs.json",
    "driver.json",
    "TRIAL",
    "TRIAL/result.json",
    "TRIAL/metrics.jsonl",
    "TRIAL/attempts",
    "TRIAL/attempts/1.0.json",
    "TRIAL/log.txt",
)
"""TRIAL stands for the id of the first trial."""


class DamageCase(NamedTuple):
    """A command, and the damage of a file that it may read."""

    command: str  # one of RUN_COMMANDS or SWEEP_COMMANDS
    file: str
    damage: str  # `position` and `value`: see `damage.damage`
    position: int
    value: Any
    has_result: bool  # else result.json is missing, too


@st.composite
def cases(draw: st.DrawFn) -> DamageCase:
    of_run = draw(st.booleans())
    return DamageCase(
        draw(st.sampled_from(RUN_COMMANDS if of_run else SWEEP_COMMANDS)),
        draw(st.sampled_from(RUN_FILES if of_run else SWEEP_FILES)),
        draw(st.sampled_from(DAMAGES)),
        draw(st.integers(0, 2**16)),
        draw(st.sampled_from(ODD_VALUES)),
        draw(st.booleans()),
    )


def every_damage(rng: random.Random) -> Iterator[DamageCase]:
    """A case for each command, file and damage, at a random position."""
    places = [
        *itertools.product(RUN_COMMANDS, RUN_FILES),
        *itertools.product(SWEEP_COMMANDS, SWEEP_FILES),
    ]
    for place, how, has_result in itertools.product(places, DAMAGES, (True, False)):
        value = rng.choice(ODD_VALUES)
        yield DamageCase(*place, how, rng.randrange(2**16), value, has_result)


class FinishedRun(NamedTuple):
    """A finished run of seconds in `workdir`, and its compiled phases."""

    workdir: Path
    argv: list[str]  # of launch.train, but for the workdir
    program: Any
    phases: list[Phase]
    metrics: dict[str, float]

    def replaced(self) -> list[Any]:
        """Patches with which a command takes these phases and compiles none."""
        program = self.program, self.phases
        return [
            mock.patch("research.train.build_phases", lambda *_: program),
            mock.patch("research.train.compile_phases", lambda _: self.phases),
            *replaced("research.train.build_phases"),
        ]


@functools.cache
def finished_run(folder: Path) -> FinishedRun:
    config = tiny_runs.tiny_config(tiny_runs.write_corpus(folder))
    program, built = compiled_phases.build_phases(config, jax.devices()[:1])
    texts = {
        k: v if isinstance(v, str) else json.dumps(v)
        for k, v in flatten(config).items()
    }
    argv = [
        "--config=experiments/mlm.py",
        *(f"--config.{k}={v}" for k, v in texts.items()),
    ]
    run = FinishedRun(
        folder / "run", argv, program, compiled_phases.compile_phases(built), {}
    )
    outcome = command.run(train, [*argv, f"--workdir={run.workdir}"], run.replaced())
    assert outcome.code == 0, outcome
    return run._replace(metrics=_metrics(run.workdir))


def _metrics(workdir: Path) -> dict[str, float]:
    return json.loads((workdir / "result.json").read_text())["metrics"]


@functools.cache
def sweep_of(folder: Path) -> tuple[Path, str, str]:
    """A finished sweep, the id of its first trial, and its table."""
    workdir = folder / "sweep"
    first = finished_sweep(workdir)[0]
    ProcessRecord("1", 0, 1, "host", 1, 1.0, 2.0, 3.0, 0).write(
        epath.Path(first.folder)
    )
    (Path(first.folder) / "log.txt").write_text("a line\n")
    scheduler.clear_handles(epath.Path(workdir))
    driver = {"pid": 1, "host": "nowhere", "since": 0.0}
    (workdir / "driver.json").write_text(json.dumps(driver))
    return workdir, first.id, _run_sweep("table", workdir).output


def _run_sweep(name: str, workdir: Path) -> command.Outcome:
    flags, table_flag = [f"--workdir={workdir}"], f"--table={fake_sweep.__file__}"
    if name in ("table", "report"):
        module = {"table": table, "report": report}[name]
        return command.run(module, [table_flag, *flags], replaced())
    words = [name] if name != "run" else [f"--sweep={workdir / 'sweep.py'}"]
    return command.run(sweep, [*words, *flags], replaced())


def check(case: DamageCase, folder: Path) -> command.Outcome:
    """Runs a command on a copy with the damage; errors name the file."""
    of_run = case.command in RUN_COMMANDS
    source, trial_id = (
        (finished_run(folder).workdir, "") if of_run else sweep_of(folder)[:2]
    )
    copy = folder / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(source, copy)
    file = case.file.replace("TRIAL", trial_id)
    if not case.has_result:
        (copy / Path(trial_id) / "result.json").unlink()
    damage(copy / file, case.damage, case.position, case.value)
    outcome = (_check_run if of_run else _check_sweep)(case, folder, copy)
    prints_table = case.command in ("table", "report")
    if outcome.code == cli.FAILED and prints_table and not outcome.error:
        outcome = outcome._replace(code=cli.DONE)  # one with an empty cell
    names = {*Path(file).parts, trial_id or "of another run"}
    problem = command.complaint(outcome, names)
    assert not problem, f"{problem}\n{case}"
    return outcome


def _check_run(case: DamageCase, folder: Path, copy: Path) -> command.Outcome:
    """A run that goes on ends with the same metrics."""
    run = finished_run(folder)
    if case.command == "init_from":
        shutil.rmtree(folder / "second", ignore_errors=True)
        flags = [f"--workdir={folder / 'second'}", f"--config.train.init_from={copy}"]
        stopped = mock.patch("research.train.Loop.run", command.stop_here)
        return command.run(train, [*run.argv, *flags], [*run.replaced(), stopped])
    outcome = command.run(train, [*run.argv, f"--workdir={copy}"], run.replaced())
    if outcome.code == 0 and case.file != "metrics.jsonl":
        assert _metrics(copy) == run.metrics, f"{case}: {_metrics(copy)}"
    return outcome


def _check_sweep(case: DamageCase, folder: Path, copy: Path) -> command.Outcome:
    """A table that is printed has the same numbers."""
    lock, driver = contextlib.nullcontext(), copy / "driver.json"
    if case.file == "driver.json" and case.command == "status" and driver.is_file():
        lock = file_lock(driver)
    with lock:
        outcome = _run_sweep(case.command, copy)
    if outcome.code == 0 and case.command == "table":
        assert outcome.output == sweep_of(folder)[2], f"{case}: {outcome.output}"
    return outcome
