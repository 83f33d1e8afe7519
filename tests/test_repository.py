"""The repository keeps its own rules: style, layers, sizes, experiments that load."""

import ast
import importlib
import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from launch import config
from launch.reports import tables
from launch.sweeps import sweep_plan

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = [
    path
    for folder in ("research", "launch", "experiments", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
EXPERIMENTS = [
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "experiments").glob("[!_]*.py"))
]


def _files(folder: str) -> list[str]:
    found = sorted((ROOT / "experiments" / folder).glob("[!_]*.py"))
    return [str(path.relative_to(ROOT)) for path in found]


def _run(*command: str) -> str:
    """What a command of the environment says; it must end well."""
    binary = Path(sys.executable).parent / command[0]
    done = subprocess.run(
        [str(binary), *command[1:]], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("command", [("check",), ("format", "--check")])
def test_ruff_has_no_complaint(command):
    _run("ruff", *command, ".")


def test_imports_run_one_way():
    assert "0 broken" in _run("lint-imports")


def test_no_file_is_named_for_nothing():
    names = {path.stem for path in LIBRARY}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_says_what_it_is_and_stays_short(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert not text.strip() or ast.get_docstring(tree)
    assert text.count("\n") <= 300


@pytest.mark.parametrize("file", EXPERIMENTS)
def test_an_experiment_loads_and_is_a_short_diff(file):
    config.load(file)
    if file != "experiments/base.py":
        text = (ROOT / file).read_text()
        code = text.split('"""', 2)[2]
        assert code.count("\n") <= 30
        assert f"--config={file}" in text, "its docstring lacks the command"


@pytest.mark.parametrize("scale", sweep_plan.SCALES)
@pytest.mark.parametrize("file", _files("sweeps"))
def test_a_sweep_plans_at_every_scale(file, scale, tmp_path):
    planned = sweep_plan.make_plan(file, tmp_path, scale=scale, shared={})
    assert len({trial.id for trial in planned}) == len(planned) > 0


@pytest.mark.parametrize("file", _files("tables"))
def test_a_table_has_a_row_for_each_trial_of_its_sweep(file, tmp_path):
    table = tables.load_table(file)
    sweep = file.replace("tables", "sweeps")
    planned = sweep_plan.make_plan(sweep, tmp_path, scale="smoke", shared={})
    rows = table.rows(planned)
    placed = [t for row in rows.values() for group in row.values() for t in group]
    assert sorted(t.id for t in placed) == sorted(t.id for t in planned)
    assert {column.group for column in table.columns} <= {
        group for row in rows.values() for group in row
    }
    assert not table.baseline or table.baseline in rows


def test_make_compare_runs_the_sweep_and_the_report_of_the_same_objectives():
    plan = subprocess.run(
        ["make", "--dry-run", "compare"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"MAKEFLAGS": ""},
    ).stdout
    for word in (
        "launch.sweep --sweep=experiments/sweeps/objectives.py",
        "launch.report --table=experiments/tables/objectives.py",
        "--workdir=runs/compare",
        "--scale=smoke",
    ):
        assert word in plan


def _told(page: str) -> list[str]:
    """The command lines that a page shows, each on one line."""
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)
    return re.sub(r"\\\n\s*", "", "".join(blocks)).splitlines()


COMMANDS = [
    (page, line[line.index("python -m launch.") :])
    for page in ("README.md", "docs/pods.md")
    for line in _told(page)
    if "python -m launch." in line
]


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=lambda each: each[:60])
def test_a_page_shows_commands_that_parse(page, line):
    line = line.replace("$i", "0")
    quoted = line.removesuffix("'") if line.count("'") % 2 else line
    words = itertools.takewhile(lambda w: w not in ("&", "|"), shlex.split(quoted))
    _, _, module, *flags = words
    args = importlib.import_module(module).parser().parse_args(flags)
    if "config" in args:
        config.load(args.config, args.overrides)


def test_pages_show_makes_own_targets():
    assert {page for page, _ in COMMANDS} == {"README.md", "docs/pods.md"}
    lines = [line for page in ("README.md", "docs/pods.md") for line in _told(page)]
    targets = {line.split()[1] for line in lines if line.startswith("make ")}
    known = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.M)
    assert targets and targets <= set(known)
