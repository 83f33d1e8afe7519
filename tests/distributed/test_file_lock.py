"""At most one process holds a file lock, and its children hold it with it."""

import os
import subprocess
import sys

import pytest

from research.contract.errors import UserError
from research.distributed.file_lock import file_lock, is_locked
from tests.testing.alarm import ends_within


def test_a_lock_has_one_holder_at_a_time(tmp_path):
    path = tmp_path / "lock"
    assert not is_locked(path)
    with file_lock(path) as held:
        assert held and is_locked(path)
        with file_lock(path, wait=False) as second:
            assert second is None
    assert not is_locked(path)
    with file_lock(path, wait=False) as held:
        assert held


def test_a_child_that_inherits_the_lock_holds_it(tmp_path):
    path = tmp_path / "lock"
    with file_lock(path) as held:
        child = subprocess.Popen(
            [sys.executable, "-c", "input()"],
            stdin=subprocess.PIPE,
            pass_fds=(held.fileno(),),
        )
    assert is_locked(path)
    child.communicate(b"\n")
    assert not is_locked(path)


def test_a_pipe_is_no_lock(tmp_path):
    path = tmp_path / "lock"
    os.mkfifo(path)
    error = pytest.raises(UserError, match="lock is a lock, but not a file")
    with error, ends_within(30):
        is_locked(path)
    with error, ends_within(30), file_lock(path):
        pass


def test_a_link_is_no_lock(tmp_path):
    """A lock's content would replace that of the file."""
    (tmp_path / "own.txt").write_text("before")
    (tmp_path / "lock").symlink_to(tmp_path / "own.txt")
    error = pytest.raises(UserError, match="lock is a lock, but not a file")
    with error, file_lock(tmp_path / "lock"):
        pass
    assert (tmp_path / "own.txt").read_text() == "before"
