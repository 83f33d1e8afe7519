"""What the cache gives is whole: made once, by one process, under its own hash."""

import json
import multiprocessing
import os
import signal
import time

import pytest

from research.data import cache
from research.errors import UserError

MADE_OF = {"a": [1, "é"], "b": None}


def make(folder):
    """Fills a folder slowly, and counts how often it was asked to."""
    with (folder.parent / "calls").open("a") as calls:
        calls.write("x")
    (folder / "first").write_bytes(b"12345")
    time.sleep(0.5)
    (folder / "inner").mkdir()
    (folder / "inner" / "second").write_bytes(b"1")
    return {"count": 2}


def once(root):
    return cache.once(root, "kind", MADE_OF, make)


def calls(root):
    return len((root / "kind" / "calls").read_text())


def start(root):
    process = multiprocessing.get_context("spawn").Process(target=once, args=(root,))
    process.start()
    return process


def test_the_name_is_the_hash_of_all_it_is_made_of():
    names = {
        cache.fingerprint(made_of)
        for made_of in ({"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 1}, ["a", 1], "a")
    }
    assert len(names) == 5
    assert cache.fingerprint({"a": 1, "b": 2}) == cache.fingerprint({"b": 2, "a": 1})


def test_it_is_made_once_and_says_what_it_holds(tmp_path):
    path = once(tmp_path)
    assert once(tmp_path) == path
    assert calls(tmp_path) == 1
    meta = json.loads((path / cache.META).read_text())
    assert meta["files"] == {"first": 5, "inner/second": 1}
    assert meta["made_of"] == MADE_OF
    assert cache.read_meta(path) == meta


@pytest.mark.parametrize("harm", ["no meta", "half a meta", "cut file", "lost file"])
def test_what_is_not_whole_is_made_again(tmp_path, harm):
    path = once(tmp_path)
    if harm == "no meta":
        (path / cache.META).unlink()
    elif harm == "half a meta":
        (path / cache.META).write_text('{"files": ')
    elif harm == "cut file":
        (path / "first").write_bytes(b"1234")
    else:
        (path / "inner" / "second").unlink()
    (path / "stray").write_text("of the unfinished one")
    assert cache.read_meta(path) is None
    assert once(tmp_path) == path
    assert calls(tmp_path) == 2
    assert cache.read_meta(path)["files"] == {"first": 5, "inner/second": 1}


def test_of_many_processes_one_makes_it(tmp_path):
    processes = [start(tmp_path) for _ in range(4)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert calls(tmp_path) == 1
    assert cache.read_meta(once(tmp_path))["count"] == 2


def test_a_killed_maker_leaves_no_lock(tmp_path):
    process = start(tmp_path)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("kind/*/first")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    assert cache.read_meta(tmp_path / "kind" / cache.fingerprint(MADE_OF)) is None
    assert cache.read_meta(once(tmp_path))["count"] == 2
    assert calls(tmp_path) == 2


def test_a_failed_maker_leaves_nothing_that_counts(tmp_path):
    def fail(folder):
        (folder / "first").write_bytes(b"12345")
        raise UserError("no text")

    with pytest.raises(UserError, match="no text"):
        cache.once(tmp_path, "kind", MADE_OF, fail)
    assert cache.read_meta(once(tmp_path))["count"] == 2


def test_a_cache_that_cannot_be_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"data\.cache_dir"):
        cache.root("gs://bucket/cache")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match=r"data\.cache_dir"):
        once(tmp_path / "file")
