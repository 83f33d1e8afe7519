"""`palimpsest harness`: what is refused before a model is opened."""

import importlib.machinery
import sys
from types import ModuleType

import pytest

from launch.commands import harness
from research.contract.errors import UserError


def run(*flags):
    harness.run(harness.parser().parse_args(["--workdir=runs/none", *flags]))


def test_a_missing_library_names_its_extra(monkeypatch):
    for library, extra in (("lm_eval", "harness"), ("mteb", "mteb")):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(UserError, match=rf"pip install '\.\[{extra}\]'"):
            run("--tasks=a", f"--library={library}")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--tasks=,"], "--tasks names no task"),
        (["--tasks=a", "--pool=class"], "--pool is not read with --library=lm_eval"),
        (
            ["--tasks=a", "--library=mteb", "--method=original"],
            "--method is not read with --library=mteb",
        ),
        (["--tasks=a"], "runs/none is not a run"),
    ],
)
def test_wrong_flags_are_one_line(monkeypatch, flags, words):
    for library in harness.LIBRARIES:
        fake = ModuleType(library)
        fake.__spec__ = importlib.machinery.ModuleSpec(library, None)
        monkeypatch.setitem(sys.modules, library, fake)
    with pytest.raises(UserError, match=words):
        run(*flags)
