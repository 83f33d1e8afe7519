"""The repository keeps its rules: style, imports, experiments and pages."""

import argparse
import ast
import importlib
import importlib.util
import itertools
import os
import pkgutil
import re
import shlex
import subprocess
import types
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import palimpsest
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


def test_no_file_has_a_name_without_meaning():
    names = {path.stem for path in PYTHON_FILES}
    assert not names & {"utils", "util", "helpers", "common", "misc"}


@pytest.mark.parametrize(
    "path", PYTHON_FILES, ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_file_has_a_docstring(path):
    text = path.read_text()
    assert not text.strip() or ast.get_docstring(ast.parse(text))


@pytest.mark.parametrize("file", _experiment_files("."))
def test_an_experiment_loads_and_shows_its_command(file):
    config.load_config(file)
    shown = ast.get_docstring(ast.parse((ROOT / file).read_text()))
    assert f"--config={file}" in shown, "the docstring lacks the command"


def _plan(*targets: str) -> str:
    """The commands that `make` would run for the targets, which must exist."""
    done = subprocess.run(
        ["make", "--dry-run", *targets],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"MAKEFLAGS": ""},
    )
    assert done.returncode == 0, done.stderr
    return re.sub(r"\\\n\s*", "", done.stdout)


def _main_module(module: str) -> types.ModuleType:
    """What `python -m module` runs."""
    package = importlib.util.find_spec(module).submodule_search_locations
    return importlib.import_module(module + ".__main__" * bool(package))


def _parser(module: str) -> argparse.ArgumentParser:
    """The parser of `python -m module`."""
    return _main_module(module).parser()


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_lock_has_one_version_of_each_requirement_for_each_python(python):
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    locked = [Requirement(line) for line in lines if line[0] not in " #"]
    chosen = [
        each for each in locked if not each.marker or each.marker.evaluate(environment)
    ]
    versions = {canonicalize_name(each.name): str(each.specifier) for each in chosen}
    assert len(versions) == len(chosen)
    (call,) = (
        node
        for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
        if isinstance(node, ast.keyword) and node.arg == "install_requires"
    )
    for needed in map(Requirement, ast.literal_eval(call.value)):
        version = versions[canonicalize_name(needed.name)].removeprefix("==")
        assert version in needed.specifier, needed


def test_no_file_installs_another_project_of_this_name():
    """PyPI's palimpsest is not this project."""
    pages = [ROOT / "README.md", ROOT / "Makefile", *(ROOT / "docs").rglob("*.md")]
    wrong = re.compile(r"pip install [^\n]*palimpsest" + re.escape("["))
    files = [*PYTHON_FILES, *pages]
    assert not [p for p in files if wrong.search(p.read_text("utf-8"))]


def test_make_compare_reports_what_it_sweeps():
    plan = _plan("compare")
    sweep, report = (
        _parser(module).parse_args(shlex.split(flags))
        for module, _, flags in COMMAND.findall(plan)
    )
    assert Path(sweep.sweep).name == Path(report.table).name
    assert sweep.workdir == report.workdir


PAGES = [
    str(path.relative_to(ROOT))
    for path in (*ROOT.glob("[!.]*.md"), *sorted((ROOT / "docs").rglob("*.md")))
    if path.name != "CHANGELOG.md"  # it names what was there
]
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\((?!\w+:|#)([^)#]+)")
FOLDERS = "research|launch|experiments|tests|docs"
PATH = re.compile(rf"(?:{FOLDERS})/[\w./-]*")
DOTTED_NAME = re.compile(rf"(?:{FOLDERS})(?:\.\w+)+")
COMMAND = re.compile(
    rf"(?:python -m ((?:{FOLDERS})\.[\w.]+)|(?<![-\w./])palimpsest (\w+))(.*)"
)


def _block_lines(page: str) -> list[str]:
    """The lines of a page's blocks of code, with continuations joined."""
    blocks = "".join(FENCED.findall((ROOT / page).read_text()))
    return re.sub(r"\\\n\s*", "", blocks).splitlines()


def _code_lines(page: str) -> list[str]:
    """The code of a page: lines of its blocks, and spans."""
    return _block_lines(page) + INLINE.findall(
        FENCED.sub("", (ROOT / page).read_text())
    )


def _named_paths(page: str) -> set[str]:
    """The paths of a page's links, and those in backticks without a NAME to fill in."""
    text = FENCED.sub("", (ROOT / page).read_text())
    folder = Path(page).parent
    links = {str(folder / link) for link in LINK.findall(text)}
    spans = {span.partition(":")[0] for span in INLINE.findall(text)}
    paths = {span for span in spans if PATH.fullmatch(span) and "NAME" not in span}
    return links | paths


COMMAND_NAMES = palimpsest.commands().keys() - palimpsest.OF_ITSELF
COMMANDS = [
    (page, match[1] or palimpsest.module_of(match[2]), match[3])
    for page in PAGES
    if not page.startswith("docs/tutorials/")  # test_tutorials.py runs those
    for line in _code_lines(page)
    for match in COMMAND.finditer(line)
    if match[1] or (match[2] in COMMAND_NAMES and line in _block_lines(page))
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
def test_a_page_shows_commands_that_parse(page, module, flags, monkeypatch):
    monkeypatch.setattr(config, "check_needed", lambda *_: None)  # runs and files
    assert importlib.util.find_spec(module)
    if module == "launch.commands.benchmark_huggingface":
        return  # it needs packages that we do not install
    if not hasattr(_main_module(module), "parser"):
        assert module.startswith(("experiments.studies.", "tests.proofs."))  # no flags
        return
    flags = re.sub(r"\$\w+", "0", flags)
    flags = flags.removesuffix("'") if flags.count("'") % 2 else flags
    words = [
        *itertools.takewhile(lambda w: w not in ("&", "|", ">"), shlex.split(flags))
    ]
    if words == ["--help"]:
        return
    args = _parser(module).parse_args(words)
    example = ROOT / "docs/examples" / getattr(args, "config", "")
    if (
        getattr(args, "config", "") and not example.is_file()
    ):  # tests/test_examples.py has those
        # Published models are not here.
        own = {k: v for k, v in args.overrides.items() if not v.startswith("hf:")}
        config.load_config(args.config, own)


def test_pages_show_targets_that_make_knows():
    lines = [line for page in PAGES for line in _code_lines(page)]
    targets = {name for line in lines for name in re.findall(r"\bmake ([\w-]+)", line)}
    assert targets and _plan(*sorted(targets))
