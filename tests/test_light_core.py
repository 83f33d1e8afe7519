"""The core runs without the packages of extras, such as TensorFlow."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import setuptools

from launch.backends.backend import FOLDER as BACKENDS
from research.contract.errors import EXTRAS
from research.record.trackers import FOLDER as TRACKERS
from tests.testing.tiny_runs import tiny_settings, write_corpus

ROOT = Path(__file__).parents[1]
REQUIRED = {
    name: cls.requires
    for folder in (TRACKERS, BACKENDS)
    for name in folder.names()
    if getattr(cls := folder.part_class(name, ""), "requires", "")
}
PACKAGES = sorted({*EXTRAS, *(re.match(r"\w+", r)[0] for r in REQUIRED.values())})
BLOCKED = f"""
import sys
sys.modules |= dict.fromkeys({PACKAGES!r})  # as if they were not installed
"""
TRAINS = """
import palimpsest

run = palimpsest.train("experiments/mlm.py", workdir, keys)
print(run.open().encode(["the river"]).shape)
for changes in {"data.reader": "seqio"}, {"data.corpus": "tfds:imdb_reviews"}:
    try:
        palimpsest.train("experiments/mlm.py", workdir + "2", keys | changes)
    except ValueError as error:
        print(type(error).__name__, error)
"""


@pytest.mark.long  # CI's job core trains so
def test_a_run_is_trained_and_opened_without_the_extras(tmp_path):
    keys = tiny_settings(write_corpus(tmp_path)) | {"train.steps": 4}
    given = f"workdir, keys = {str(tmp_path / 'run')!r}, {keys!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED + given + TRAINS],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    shape, reader, corpus = done.stdout.splitlines()
    assert shape == "(1, 32)"
    for line, key in ((reader, "reader=seqio"), (corpus, "corpus=tfds:imdb_reviews")):
        assert line.startswith(f"UserError data.{key} needs the package ")
        assert "pip install '.[seqio]'" in line


def test_every_extra_that_an_error_names_is_one_of_the_setup(monkeypatch):
    """Also that of a tracker or backend, whose class states what it requires."""
    given = {}
    monkeypatch.setattr(setuptools, "setup", given.update)
    runpy.run_path(str(ROOT / "setup.py"))
    stated = {name: [package] for name, package in REQUIRED.items()}
    assert stated.items() <= given["extras_require"].items()
    assert {*EXTRAS.values()} <= given["extras_require"].keys()
