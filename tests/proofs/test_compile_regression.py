"""The compile regression: crashes, and what counts as a difference."""

import subprocess
import sys
from pathlib import Path

from tests.proofs.compile_regression import GOLDENS, cases, differences, golden

ROOT = Path(__file__).parents[2]

CRASH = """
import json, os, sys
from tests.proofs import compile_regression

def compiled(case):
    if case.name == "electra":
        os.kill(os.getpid(), 11)
    return json.loads(case.golden.read_text())

compile_regression.compiled = compiled
sys.exit(compile_regression.run(compile_regression.parser().parse_args(["--ci"])))
"""


def test_a_crash_of_the_compiler_fails_one_case_alone():
    command = [sys.executable, "-c", CRASH]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1, done.stderr
    *lines, last = done.stdout.splitlines()
    (crash,) = [line for line in lines if "as before" not in line]
    assert crash.endswith("electra:tiny on v5e:2x2: the compiler crashed")
    assert last == "4 of 5 compile as before"


def test_every_golden_file_is_of_a_published_size_and_fits_its_slice():
    every = {case.golden: case for ci in (True, False) for case in cases(ci=ci)}
    for file in GOLDENS.glob("*.json"):
        case = every[file]
        facts = golden(case)
        assert facts["fits"] and facts["topology"] == case.topology, case


def test_a_step_that_does_not_fit_is_always_a_difference():
    facts = golden(next(cases(ci=True))) | {"fits": False}
    assert differences(facts, facts) == ["it does not fit"]


def test_differences_to_the_golden_file():
    before = {
        "topology": "v5e:2x2",
        "mesh": {"data": 4},
        "batch": 8,
        "fits": True,
        "peak_bytes_per_device": 1000,
        "parameters": 10,
        "collectives": {"all-reduce": 2},
        "tree": {"token/embedding": "4x2"},
    }
    assert not differences(before, before | {"peak_bytes_per_device": 1020})
    assert not differences(before, before | {"peak_bytes_per_device": 500})
    (line,) = differences(before, before | {"peak_bytes_per_device": 1021})
    assert "1,021 now" in line
    (line,) = differences(before, before | {"tree": {"token/embedding": "4x3"}})
    assert line == "tree token/embedding: 4x2 before, 4x3 now"
    both = {"all-reduce": 2, "all-gather": 1}
    (line,) = differences(before, before | {"collectives": both})
    assert line == "collectives all-gather: none before, 1 now"
    fewer = before | {"collectives": {"all-reduce": 1}}
    assert not differences(before, fewer)
    (line,) = differences(fewer, before)
    assert line == "collectives all-reduce: 1 before, 2 now"
