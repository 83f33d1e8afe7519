"""A workdir has one writer, and belongs to one config and one text."""

import os
import subprocess
import sys

import pytest
from etils import epath

from research.config import base
from research.contract.errors import UserError
from research.record.workdir import (
    CHANGEABLE_KEYS,
    check_same_run,
    config_digest,
    open_workdir,
)

CONFIG = base.get_config("tiny").to_dict()

OPEN = """
import sys
from etils import epath
from research.record.workdir import open_workdir
with open_workdir(epath.Path(sys.argv[1]), {}):
    print("open", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_refused_and_names_the_first(tmp_path):
    first = subprocess.Popen(
        [sys.executable, "-c", OPEN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with first:
        assert first.stdout.readline() == "open\n"
        words = rf"another run writes .*\(process {first.pid} on .+\)"
        with pytest.raises(UserError, match=words), open_workdir(tmp_path, {}):
            raise AssertionError("opened")
        first.kill()
    for _ in range(2):  # the lock ends with its process, and with its block
        with open_workdir(tmp_path, {}) as result:
            assert result is None
            assert f"process {os.getpid()} on" in (tmp_path / ".lock").read_text()


def test_a_run_that_is_refused_leaves_no_folder_that_it_made(tmp_path):
    """What was there stays, and so does what a run has written."""

    def refuse(workdir, *, written=""):
        with pytest.raises(UserError), open_workdir(workdir, {}):
            if written:
                (workdir / written).write_text("")
            raise UserError("refused")

    refuse(tmp_path / "runs" / "a")
    assert not any(tmp_path.iterdir())
    (tmp_path / "runs").mkdir()
    refuse(tmp_path / "runs" / "a")
    assert [*tmp_path.rglob("*")] == [tmp_path / "runs"]
    refuse(tmp_path / "runs")
    refuse(tmp_path / "new", written="provenance.json")
    names = {path.name for path in tmp_path.rglob("*")}
    assert names == {"runs", "new", ".lock", "provenance.json"}


def test_a_bucket_that_cannot_be_reached_is_one_line(monkeypatch):
    def exists(path):
        raise RuntimeError("no network\nat all")

    monkeypatch.setattr(type(epath.Path("gs://bucket")), "exists", exists)
    words = r"gs://bucket/run/config.json cannot be read \(no network\)"
    with (
        pytest.raises(UserError, match=words),
        open_workdir(epath.Path("gs://bucket/run"), {}),
    ):
        raise AssertionError("opened")


def changed(key, value) -> dict:
    section, name = key.split(".")
    return CONFIG | {section: CONFIG[section] | {name: value}}


def test_the_digest_leaves_out_what_a_restart_may_change():
    digest = config_digest(CONFIG)
    assert config_digest(CONFIG | {"seed": 5}) != digest
    assert config_digest(changed("train.steps", 7)) != digest
    for key in CHANGEABLE_KEYS:
        assert config_digest(changed(key, 7)) == digest


def test_a_checkpoint_of_another_config_or_text_is_refused(tmp_path):
    old = {"config": "a", "data": "x", "constants": {}}
    check_same_run(tmp_path, old, old)
    with pytest.raises(UserError, match="checkpoint of another config"):
        check_same_run(tmp_path, old, old | {"config": "b"})
    with pytest.raises(UserError, match=r"other data \(x\) than data"):
        check_same_run(tmp_path, old, old | {"data": "y"})
