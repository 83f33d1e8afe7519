"""Experiments, sweeps and tables that are wrong: their file and line, in one line."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from launch import config, report, sweep, table
from launch.cli import main
from launch.user_code import name_line_in_errors
from research.contract.errors import UserError
from tests.proofs.fuzz.command_cases import finished_sweep, make_files


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("files") / "files"
    make_files(made)
    return made


@pytest.fixture
def error(folder, capsys):
    """Runs a command, which must fail by one line; returns the line."""

    def run(command, *words):
        with pytest.raises(SystemExit) as caught:
            main(command.run, command.parser(), [*words, f"--workdir={folder}/sweep"])
        printed = capsys.readouterr().err
        assert caught.value.code == 2 and printed.count("\n") == 1, printed
        return printed

    return run


@pytest.mark.parametrize(
    "name, words",
    [
        ("raises", "raises.py:1: RuntimeError: no"),
        ("syntax", "syntax.py:1: invalid syntax"),
        ("binary", "binary.py:1: source code string cannot contain null bytes"),
        ("exits", "exits.py:2: SystemExit: 0"),
        ("empty", "empty.py is not a sweep"),
        (
            "nothing",
            "nothing.py: sweep(scale) must yield pairs (experiment, overrides), not",
        ),
        ("arguments", "arguments.py:1: sweep() cannot be called with 1 argument(s)"),
        ("values", "values.py: 3() cannot be called"),
        ("items", "items.py: sweep(scale) must yield pairs"),
        ("late", "late.py:3: ZeroDivisionError: division by zero"),
        (
            "none",
            "seed must be a whole number, at least 0 and below 2147483648, not None",
        ),
        ("endless", "endless.py: sweep('smoke') gives more than 10,000 trials"),
        ("itself", "the overrides of experiments/lm.py contain themselves"),
        ("list", "the overrides of experiments/lm.py contain themselves"),
    ],
)
def test_a_wrong_sweep_is_told_with_its_line(error, folder, name, words):
    assert words in error(sweep, f"--sweep={folder}/{name}.py")


@pytest.mark.parametrize(
    "name, words",
    [
        ("raises", "raises.py:1: RuntimeError: no"),
        ("nothing", "nothing.py is not a table: it does not define TABLE, a `Table`"),
        ("values", "values.py is not a table"),
        ("rows", "--table: rows() must return row -> group -> trials, not None"),
        ("column", "column.py:4: AttributeError: 'Trial' object has no attribute 'x'"),
        ("text", "--table: column 'c' of lm steps=20 seed=0 must be a number, or"),
    ],
)
@pytest.mark.parametrize("command", [table, report])
def test_a_wrong_table_is_told_with_its_line(error, folder, command, name, words):
    assert words in error(command, f"--table={folder}/{name}.py")


@pytest.mark.parametrize(
    "name, words",
    [
        ("raises", "raises.py:1: RuntimeError: no"),
        ("empty", "empty.py is not an experiment"),
        ("nothing", "nothing.py: get_config() must return a ConfigDict, not None"),
        (
            "arguments",
            "arguments.py:2: get_config() cannot be called with 0 argument(s)",
        ),
        ("late", "late.py:5: KeyError: 'x'"),
        (
            "config",
            "config.py: the config has no legal data; begin with base.get_config",
        ),
    ],
)
def test_a_wrong_experiment_is_told_with_its_line(folder, name, words):
    with pytest.raises(UserError) as caught:
        config.load_config(f"{folder}/{name}.py")
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_our_own_error_keeps_its_traceback():
    with pytest.raises(KeyError), name_line_in_errors("table.py"):
        {}["ours"]


def test_a_row_with_a_formula_and_html_stops_no_report(folder, capsys, tmp_path):
    finished_sweep(tmp_path / "sweep")
    words = [f"--table={folder}/fine.py", f"--workdir={tmp_path}/sweep"]
    with pytest.raises(SystemExit) as caught:
        main(report.run, report.parser(), words)
    assert not caught.value.code, capsys.readouterr().err
    text = (tmp_path / "sweep" / "report.md").read_text()
    assert r"| $x^$ \| \<b> |" in text and "| <b>" not in text


def test_experiments_are_found_from_any_folder(tmp_path, monkeypatch, error):
    """What lies in the current folder comes first."""
    monkeypatch.chdir(tmp_path)
    assert config.from_file("experiments/mlm.py").objective.name == "mlm"
    words = error(sweep, "--sweep=experiments/sweeps/bert66.py")
    assert "no file experiments/sweeps/bert66.py" in words
    (tmp_path / "experiments").mkdir()
    (tmp_path / "experiments" / "mlm.py").write_text("raise ValueError('mine')\n")
    with pytest.raises(UserError, match=r"experiments/mlm.py:1: ValueError: mine"):
        config.from_file("experiments/mlm.py")


def test_all_files_of_the_packages_are_installed(tmp_path):
    root = Path(__file__).parents[2]
    build = ["setup.py", "-q", "build_py", f"--build-lib={tmp_path}"]
    subprocess.run([sys.executable, *build], cwd=root, check=True, capture_output=True)

    def names(folder):
        packages = (folder / name for name in ("research", "experiments", "launch"))
        found = itertools.chain(*(package.rglob("*.*") for package in packages))
        return {str(path.relative_to(folder)) for path in found if path.is_file()}

    kinds = (".py", ".toml", ".json", ".html")
    expected = {name for name in names(root) if name.endswith(kinds)}
    assert names(tmp_path) == expected and len(expected) > 300
