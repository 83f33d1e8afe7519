"""The repository keeps its rules: style, imports, file sizes, experiments and pages."""

import ast
import importlib
import importlib.util
import itertools
import os
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from launch import config

ROOT = Path(__file__).resolve().parent.parent
PYTHON_FILES = [
    path
    for folder in ("research", "launch", "experiments", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
]


def _experiment_files(folder: str) -> list[str]:
    paths = sorted((ROOT / "experiments" / folder).glob("[!_]*.py"))
    return [str(path.relative_to(ROOT)) for path in paths]


def _run(*command: str) -> str:
    """The output of a command of the environment, which must succeed."""
    binary = Path(sys.executable).parent / command[0]
    done = subprocess.run(
        [str(binary), *command[1:]], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("command", [("check",), ("format", "--check")])
def test_ruff_finds_nothing(command):
    _run("ruff", *command, ".")


def test_imports_run_one_way():
    assert "0 broken" in _run("lint-imports")


def test_no_file_has_a_name_without_meaning():
    names = {path.stem for path in PYTHON_FILES}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


@pytest.mark.parametrize(
    "path", PYTHON_FILES, ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_file_has_a_docstring_and_stays_short(path):
    text = path.read_text()
    tree = ast.parse(text)
    assert not text.strip() or ast.get_docstring(tree)
    assert text.count("\n") <= 300


@pytest.mark.parametrize("file", _experiment_files("."))
def test_an_experiment_loads_and_is_a_short_diff(file):
    config.load_config(file)
    if file != "experiments/base.py":
        text = (ROOT / file).read_text()
        code = text.split('"""', 2)[2]
        assert code.count("\n") <= 30
        assert f"--config={file}" in text, "the docstring lacks the command"


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


PAGES = [
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("[!.]*.md"), *sorted((ROOT / "docs").glob("*.md")))
]
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#]+)")
FOLDERS = "research|launch|experiments|tests|docs"
PATH = re.compile(rf"(?:{FOLDERS})/[\w./-]*")
DOTTED_NAME = re.compile(rf"(?:{FOLDERS})(?:\.\w+)+")
COMMAND = re.compile(rf"python -m ((?:{FOLDERS})\.[\w.]+)(.*)")


def _code_lines(page: str) -> list[str]:
    """The code of a page: lines of its blocks, with continuations joined, and spans."""
    text = (ROOT / page).read_text()
    blocks = re.sub(r"\\\n\s*", "", "".join(FENCED.findall(text)))
    return blocks.splitlines() + INLINE.findall(FENCED.sub("", text))


def _named_paths(page: str) -> set[str]:
    """The paths of a page's links, and those in backticks without a NAME to fill in."""
    text = FENCED.sub("", (ROOT / page).read_text())
    folder = Path(page).parent
    links = {str(folder / link) for link in LINK.findall(text)}
    spans = {span.partition(":")[0] for span in INLINE.findall(text)}
    paths = {span for span in spans if PATH.fullmatch(span) and "NAME" not in span}
    return links | paths


COMMANDS = [
    (page, match[1], match[2])
    for page in PAGES
    for line in _code_lines(page)
    for match in COMMAND.finditer(line)
]


def test_pages_with_commands_are_found():
    with_commands = {page for page, _, _ in COMMANDS}
    assert {"README.md", "CONTRIBUTING.md", "docs/pods.md"} <= with_commands


@pytest.mark.parametrize("page", PAGES)
def test_the_paths_that_a_page_names_exist(page):
    missing = [path for path in _named_paths(page) if not (ROOT / path).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES)
def test_the_modules_that_a_page_names_exist(page):
    for span in _code_lines(page):
        if DOTTED_NAME.fullmatch(span):
            pkgutil.resolve_name(span)


@pytest.mark.parametrize(
    ("page", "module", "flags"), COMMANDS, ids=lambda part: part[:60]
)
def test_a_page_shows_commands_that_parse(page, module, flags):
    assert importlib.util.find_spec(module)
    if module == "launch.benchmark_huggingface" or module.startswith("docs."):
        return  # it needs packages that we do not install, or takes no flags
    flags = flags.replace("$i", "0")
    flags = flags.removesuffix("'") if flags.count("'") % 2 else flags
    words = [*itertools.takewhile(lambda w: w not in ("&", "|"), shlex.split(flags))]
    if words == ["--help"]:
        return
    args = importlib.import_module(module).parser().parse_args(words)
    own_example = f"# {getattr(args, 'config', '')}\n" in (ROOT / page).read_text()
    if "config" in args and not own_example:
        config.load_config(args.config, args.overrides)


def test_pages_show_targets_of_the_makefile():
    lines = [line for page in PAGES for line in _code_lines(page)]
    targets = {name for line in lines for name in re.findall(r"\bmake ([\w-]+)", line)}
    known = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets and targets <= set(known)
