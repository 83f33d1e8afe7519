"""Few cases of the fuzz test, the same each time; and it finds what it is to find."""

import sys
import time

import pytest

from launch import cli
from research.contract import fields
from tests.proofs.fuzz import (
    command,
    command_cases,
    config_cases,
    real_cases,
    values,
)
from tests.proofs.fuzz.__main__ import run_cases
from tests.proofs.fuzz.config_cases import ConfigCase
from tests.proofs.fuzz.real_cases import RealCase

CASES = {config_cases: 80, command_cases: 100, real_cases: 95}
SUBJECTS = ("run", "hf", "sweep", "plan", "rows", "outputs", "reports")
"""Of the whole commands; `make fuzz` has the others, which take seconds to be made.
Modules of seqio tasks are in tests/data/seqio, in a process that has TensorFlow."""

MENDED = {
    "a NaN of a checkpoint goes on": ("train", "run", 3, "not a number", 0),
    "NaN parameters are exported": ("export", "run", 3, "not a number", 0),
    "a NaN metric blocks a table": ("table", "sweep", 0, "not a number", 0),
    "an edited config opens another network": ("embed", "run", 0, "edited key", 0),
    "layers of hf: without end": ("embed", "hf", 0, "wrong key", 0),
    "integers as weights of hf:": ("fill", "hf", 1, "wrong weights", 0),
    "texts of a pipe that nobody writes": ("embed", "texts", 0, "pipe", 0),
    "pieces of one id": ("embed", "hf", 0, "wrong tokenizer", 0),
    "rows without a label": ("evaluate", "rows", 63, "wrong", 0),
    "carriage returns alone end lines": ("evaluate", "rows", 1, "same", 1),
    "a flag that is text": ("evaluate", "questions", 0, "wrong", 0),
    "a plan that sets init_from": ("run", "plan", 0, "wrong line", 0),
    "a link that is named is replaced": ("embed", "outputs", 0, "link", 0),
    "a pipe that is named is replaced": ("embed", "outputs", 0, "pipe", 0),
    "a link in a folder of results": ("report", "reports", 0, "link", 0),
    "a full disk takes an earlier table": ("table", "reports", 0, "full", 0),
}
"""What went wrong in version 0.1.0 -> the case that shows it."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder for each kind of cases, whose files are made once."""
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("module", CASES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_a_command_works_or_says_in_one_line_what_is_wrong(module, folder):
    own = folder / module.__name__
    own.mkdir(exist_ok=True)
    drawn = module.cases()
    if module is real_cases:
        drawn = real_cases.cases(SUBJECTS)
    counts = run_cases(module, CASES[module], own, drawn=drawn)
    assert min(counts.values()) > 5 and counts.keys() == {"went on", "refused"}


@pytest.mark.parametrize("case", MENDED.values(), ids=MENDED)
def test_what_went_wrong_before_is_mended(case, folder):
    own = folder / real_cases.__name__
    own.mkdir(exist_ok=True)
    real_cases.check(RealCase(*case, None), own)


def test_a_value_outside_its_range_that_is_accepted_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(fields, "_check_number", lambda *_: None)
    key = "train.batch"
    value = values.value_of(config_cases.KEYS[key])
    drawn = value.map(
        lambda text: ConfigCase("experiments/bert.py", {key: text}, False)
    )
    with pytest.raises(AssertionError, match=f"{key}=.* was accepted"):
        run_cases(config_cases, 100, tmp_path, drawn=drawn)


def _outcome(run) -> command.Outcome:
    return command.run_function(
        lambda leave: cli.main(run, cli.Parser(""), ["--config.x=1"], leave=leave)
    )


def _raise(error):
    raise error


@pytest.mark.parametrize(
    "run, problem",
    [
        (lambda args: 0, ""),
        (lambda args: _raise(cli.UserError("x is above 0")), ""),
        (lambda args: _raise(cli.UserError("y is above 0")), "names none of"),
        (lambda args: print("error: x", file=sys.stderr) or 2, ""),
        (lambda args: 2, "not one line"),
        (lambda args: print("error: x\nmore", file=sys.stderr) or 2, "one line"),
        (lambda args: 3, "exit code 3"),
        (lambda args: {}["x"], "KeyError"),
        (lambda args: command.stop_here(), ""),
        (lambda args: time.sleep(9), "hang"),
    ],
)
def test_how_a_command_ends_is_judged(run, problem, monkeypatch):
    monkeypatch.setattr(command, "IDLE_LIMIT_S", 1)
    complaint = command.complaint(_outcome(run), {"x"})
    assert problem in complaint and bool(complaint) == bool(problem)


def test_a_command_that_computes_without_end_is_a_hang(monkeypatch):
    monkeypatch.setattr(command, "LIMIT_S", 0.1)
    assert "hang" in command.complaint(_outcome(lambda args: _compute(20)), {"x"})


def _compute(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
