"""Few cases of the fuzz test, the same each time; and it finds what it is to find."""

import sys
import time

import pytest

from launch import cli
from research import fields
from tests.proofs.fuzz import (
    command,
    command_cases,
    config_cases,
    damage_cases,
    real_cases,
)
from tests.proofs.fuzz.__main__ import run_cases

CASES = {config_cases: 60, command_cases: 80, damage_cases: 25, real_cases: 80}


@pytest.mark.parametrize("module", CASES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_a_command_works_or_says_in_one_line_what_is_wrong(module, tmp_path):
    counts = run_cases(module, CASES[module], tmp_path)
    assert min(counts.values()) > 5 and counts.keys() == {"went on", "refused"}


def test_a_value_outside_its_range_that_is_accepted_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(fields, "_check_number", lambda *_: None)
    with pytest.raises(AssertionError, match="was accepted"):
        run_cases(config_cases, 100, tmp_path)


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
