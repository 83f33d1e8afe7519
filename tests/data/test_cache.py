"""A cached folder is complete: created once, by one process, under its own hash."""

import json
import multiprocessing
import os
import signal
import time

import pytest

from research.data import cache
from research.errors import UserError

CACHE_KEY = {"a": [1, "é"], "b": None}


def create(folder):
    """Fills a folder slowly, and records each call."""
    with (folder.parent / "calls").open("a") as calls:
        calls.write("x")
    (folder / "first").write_bytes(b"12345")
    time.sleep(0.5)
    (folder / "inner").mkdir()
    (folder / "inner" / "second").write_bytes(b"1")
    return {"count": 2}


def get_or_create(cache_dir):
    return cache.get_or_create(cache_dir, "category", CACHE_KEY, create)


def num_calls(cache_dir):
    return len((cache_dir / "category" / "calls").read_text())


def start_process(cache_dir):
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=get_or_create, args=(cache_dir,))
    process.start()
    return process


def test_the_name_is_the_hash_of_the_whole_key():
    names = {
        cache.fingerprint(key)
        for key in ({"a": 1, "b": 2}, {"a": 2, "b": 1}, {"a": 1}, ["a", 1], "a")
    }
    assert len(names) == 5
    assert cache.fingerprint({"a": 1, "b": 2}) == cache.fingerprint({"b": 2, "a": 1})


def test_a_folder_is_created_once_and_its_meta_lists_its_files(tmp_path):
    path = get_or_create(tmp_path)
    assert get_or_create(tmp_path) == path
    assert num_calls(tmp_path) == 1
    meta = json.loads((path / cache.META_FILE).read_text())
    assert meta["files"] == {"first": 5, "inner/second": 1}
    assert meta["cache_key"] == CACHE_KEY
    assert cache.read_meta(path) == meta


@pytest.mark.parametrize("damage", ["no meta", "half a meta", "cut file", "lost file"])
def test_an_incomplete_folder_is_created_again(tmp_path, damage):
    path = get_or_create(tmp_path)
    if damage == "no meta":
        (path / cache.META_FILE).unlink()
    elif damage == "half a meta":
        (path / cache.META_FILE).write_text('{"files": ')
    elif damage == "cut file":
        (path / "first").write_bytes(b"1234")
    else:
        (path / "inner" / "second").unlink()
    (path / "stray").write_text("of the incomplete folder")
    assert cache.read_meta(path) is None
    assert get_or_create(tmp_path) == path
    assert num_calls(tmp_path) == 2
    assert cache.read_meta(path)["files"] == {"first": 5, "inner/second": 1}


def test_one_of_many_processes_creates_the_folder(tmp_path):
    processes = [start_process(tmp_path) for _ in range(4)]
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert num_calls(tmp_path) == 1
    assert cache.read_meta(get_or_create(tmp_path))["count"] == 2


def test_a_killed_process_leaves_no_lock(tmp_path):
    process = start_process(tmp_path)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("category/*/first")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.join(60)
    folder = tmp_path / "category" / cache.fingerprint(CACHE_KEY)
    assert cache.read_meta(folder) is None
    assert cache.read_meta(get_or_create(tmp_path))["count"] == 2
    assert num_calls(tmp_path) == 2


def test_a_failed_creation_leaves_no_complete_folder(tmp_path):
    def fail(folder):
        (folder / "first").write_bytes(b"12345")
        raise UserError("no text")

    with pytest.raises(UserError, match="no text"):
        cache.get_or_create(tmp_path, "category", CACHE_KEY, fail)
    assert cache.read_meta(get_or_create(tmp_path))["count"] == 2


def test_an_unusable_cache_dir_gives_a_one_line_error(tmp_path):
    with pytest.raises(UserError, match=r"data\.cache_dir"):
        cache.resolve_cache_dir("gs://bucket/cache")
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UserError, match=r"data\.cache_dir"):
        get_or_create(tmp_path / "file")
