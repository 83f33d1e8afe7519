"""A cached folder is complete: created once, by one process, under its own hash."""

import multiprocessing
import os
import shutil
import signal
import time

import pytest

from research.contract.errors import UserError
from research.data import cache
from research.files import checksums
from research.files.checksums import CHECKSUMS_FILE

CACHE_KEY = {"a": [1, "é"], "b": None}


def create(folder):
    """Fills a folder slowly, and records each call."""
    with (folder.parent / "calls").open("a") as calls:
        calls.write("x")
    (folder / "first").write_bytes(b"12345")
    time.sleep(0.1)
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


def test_a_folder_is_created_once_with_its_meta(tmp_path):
    path = get_or_create(tmp_path)
    assert get_or_create(tmp_path) == path
    assert num_calls(tmp_path) == 1
    assert cache.read_meta(path) == {"cache_key": CACHE_KEY, "count": 2}


def test_an_incomplete_folder_is_created_again(tmp_path, capsys):
    path = get_or_create(tmp_path)
    (path / CHECKSUMS_FILE).unlink()
    (path / "stray").write_text("of the incomplete folder")
    assert cache.cached_meta(tmp_path, "category", CACHE_KEY) is None
    assert get_or_create(tmp_path) == path
    assert num_calls(tmp_path) == 2 and cache.read_meta(path)["count"] == 2
    assert not (path / "stray").exists()
    assert not capsys.readouterr().err  # a killed process is no damage


NOT_AS_WRITTEN = (b"", b"[", b"[]", b"7", b"{}", b"[" * 99_999, b"\xff\0\x01", None)
"""Contents of a JSON file: empty, cut, of wrong types, nested, binary; None: lost."""


@pytest.mark.parametrize(
    ("file", "content"),
    [
        *[("first", content) for content in (b"1234", b"1234x", None)],
        *[(cache.META_FILE, content) for content in NOT_AS_WRITTEN],
        *[(CHECKSUMS_FILE, content) for content in NOT_AS_WRITTEN if content],
        (CHECKSUMS_FILE, b'{"first": ["a", 1]}'),
        (CHECKSUMS_FILE, b'{"first": 5}'),
    ],
)
def test_damage_is_named_and_the_folder_is_created_again(
    finished, tmp_path, capsys, file, content
):
    shutil.copytree(finished, tmp_path / "cache")
    path = next((tmp_path / "cache").glob("category/*/"))
    (path / file).unlink() if content is None else (path / file).write_bytes(content)
    assert get_or_create(tmp_path / "cache") == path
    assert cache.read_meta(path) == {"cache_key": CACHE_KEY, "count": 2}
    assert (path / "first").read_bytes() == b"12345"
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{path}/{file} ") and line.endswith("made again")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A cache with one finished folder."""
    cache_dir = tmp_path_factory.mktemp("cache")
    get_or_create(cache_dir)
    return cache_dir


def test_bytes_are_read_once_by_each_machine_and_after_a_change(
    finished, tmp_path, monkeypatch
):
    path = next(finished.glob("category/*/"))
    checks, find_damage = [], checksums.find_damage

    def count(folder):
        checks.append(folder)
        return find_damage(folder)

    monkeypatch.setattr(checksums, "find_damage", count)
    get_or_create(finished)
    assert not checks  # the machine that created it
    monkeypatch.setattr("platform.node", lambda: "another")
    for _ in range(2):
        get_or_create(finished)
    assert len(checks) == 1
    os.utime(path / "first", ns=(0, 0))
    for _ in range(2):
        get_or_create(finished)
    assert len(checks) == 2
    (tmp_path / "copy").write_bytes(b"12345")
    os.utime(tmp_path / "copy", ns=(0, 0))
    (tmp_path / "copy").replace(path / "first")  # only the inode is another
    get_or_create(finished)
    assert len(checks) == 3 and num_calls(finished) == 1


def test_content_that_cannot_be_right_is_created_again(tmp_path, capsys):
    found = iter(["", "first has no text", "first has no text", ""])
    for _ in range(3):
        cache.get_or_create(
            tmp_path, "category", CACHE_KEY, create, find_damage=lambda _: next(found)
        )
    assert num_calls(tmp_path) == 2
    assert "first has no text; it is made again" in capsys.readouterr().err


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
    assert cache.cached_meta(tmp_path, "category", CACHE_KEY) is None
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
