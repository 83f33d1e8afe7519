"""The fuzz proof finds what it is to find; `make fuzz SHORT=--short` runs its cases."""

import sys
import time

import pytest

from launch import cli
from research.contract import fields
from tests.proofs.fuzz import command, config_cases, values
from tests.proofs.fuzz.__main__ import run_cases
from tests.proofs.fuzz.config_cases import ConfigCase


def test_a_value_outside_its_range_that_is_accepted_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(fields, "_check_number", lambda *_: None)
    key = "train.batch"
    value = values.value_of(config_cases.KEYS[key])
    drawn = value.map(
        lambda text: ConfigCase("experiments/bert.py", {key: text}, False)
    )
    with pytest.raises(AssertionError, match=f"{key}=.* was accepted"):
        run_cases(config_cases, 100, tmp_path, drawn, seed_=0)


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
