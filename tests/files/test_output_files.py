"""Outputs appear whole, and nothing that a path happens to name is destroyed."""

import os
import resource
import stat
import subprocess
import sys
import threading
from functools import partial

import pytest
from etils import epath

from research.contract.errors import UserError
from research.files.output_files import (
    check_output,
    delete_unfinished,
    folder_beside,
    new_folder,
    replace_text,
    write_output,
)
from tests.testing import fake_bucket


def test_a_device_is_written_to_and_stays_a_device():
    before = os.stat("/dev/null")
    write_output("/dev/null", "text", "--to")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert os.stat("/dev/null").st_ino == before.st_ino


def test_what_is_beside_an_output_in_a_bucket_stays(tmp_path, monkeypatch):
    """Without locks nothing shows whether another process is writing it."""
    folder = fake_bucket.install(monkeypatch, tmp_path) / "bucket"
    folder.mkdir()
    (folder / f".file.{16 * 'a'}").write_text("a part")
    delete_unfinished(epath.Path("gs://bucket/file"))
    write_output("gs://bucket/file", [b"all ", b"parts"], "--to")
    assert (folder / "file").read_text() == "all parts"
    assert len(list(folder.iterdir())) == 2


def test_a_stream_that_a_shell_redirects_keeps_what_it_has(tmp_path):
    file = tmp_path / "all.jsonl"
    file.write_text("before\n")
    code = (
        "from research.files.output_files import write_output\n"
        "print('first')\n"
        "for path in ('/dev/stdout', '/dev/fd/1', '/proc/self/fd/1'):\n"
        "    write_output(path, path + '\\n', '--to')\n"
        "print('last')\n"
    )
    with file.open("ab") as stream:
        subprocess.run([sys.executable, "-c", code], stdout=stream, check=True)
    assert file.read_text().splitlines() == [
        *("before", "first", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "last")
    ]


def test_a_pipe_receives_what_is_written(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    received = []
    reader = threading.Thread(
        target=lambda: received.append((tmp_path / "pipe").read_text())
    )
    reader.start()
    write_output(tmp_path / "pipe", "text", "--to")
    reader.join(10)
    assert received == ["text"]
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_a_link_that_the_user_names_is_followed(tmp_path):
    (tmp_path / "own.txt").write_text("before")
    (tmp_path / "link").symlink_to("own.txt")
    write_output(tmp_path / "link", "after", "--to")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "own.txt").read_text() == "after"


def test_a_link_in_a_folder_of_results_is_replaced(tmp_path):
    (tmp_path / "own.txt").write_text("before")
    (tmp_path / "report.md").symlink_to("own.txt")
    replace_text(epath.Path(tmp_path / "report.md"), "after")
    assert (tmp_path / "own.txt").read_text() == "before"
    assert (tmp_path / "report.md").read_text() == "after"


@pytest.mark.parametrize("name", ["folder", "file/inside"])
def test_what_cannot_be_written_is_one_line_and_leaves_nothing(name, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("before")
    for write in (check_output, partial(write_output, content="text")):
        words = rf"--to=.*{name} cannot be written \(.+\)"
        with pytest.raises(UserError, match=words):
            write(tmp_path / name, flag="--to")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]
    assert (tmp_path / "file").read_text() == "before"


def test_a_full_disk_keeps_what_was_there(tmp_path, monkeypatch):
    path = epath.Path(tmp_path / "report.md")
    replace_text(path, "before")

    def full(self, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(path), "replace", full)
    with pytest.raises(OSError, match="No space left"):
        replace_text(path, "after")
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["report.md"]


def test_an_error_names_the_file_and_not_the_one_beside_it(tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="too large") as full:
            replace_text(tmp_path / "report.md", "x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert full.value.filename == f"{tmp_path}/report.md"
    assert not any(tmp_path.iterdir())


def test_an_error_of_another_file_is_not_the_output_s(tmp_path):
    def parts():
        yield b"a"
        yield (tmp_path / "gone").read_bytes()

    with pytest.raises(FileNotFoundError, match="gone"):
        write_output(tmp_path / "report.md", parts(), "--to")
    assert not any(tmp_path.iterdir())


def test_an_error_without_a_number_keeps_its_words(tmp_path):
    def parts():
        yield b"a"
        raise OSError("not of a system")

    with pytest.raises(UserError, match=r"written \(not of a system\)$"):
        write_output(tmp_path / "report.md", parts(), "--to")
    assert not any(tmp_path.iterdir())


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "to") as unfinished:
        (unfinished / "config.json").write_text("{}")
        raise ZeroDivisionError
    assert not any(tmp_path.iterdir())
    (tmp_path / "to").mkdir()  # an empty folder is taken
    with new_folder(tmp_path / "to") as unfinished:
        (unfinished / "config.json").write_text("{}")
        assert not any((tmp_path / "to").iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["to"]
    assert (tmp_path / "to" / "config.json").exists()


def test_a_folder_beside_a_path_inside_a_file_is_one_line(tmp_path):
    (tmp_path / "file").write_text("before")
    with (
        pytest.raises(UserError, match=r"file/to cannot be written \(.+\)"),
        folder_beside(tmp_path / "file" / "to"),
    ):
        pass
    assert (tmp_path / "file").read_text() == "before"


def test_what_a_killed_writer_left_is_deleted_and_nothing_else(tmp_path):
    left, hex16 = tmp_path / ".to.0123456789abcdef", "0123456789abcde0"
    kept = [".to.0123456789abcdef.txt", ".to.xyz", f".other.{hex16}", f".to.{hex16}"]
    for name in kept[:3]:
        (tmp_path / name).write_text("of someone else")
    (tmp_path / kept[3]).mkdir()  # empty: it may just have been made
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    with new_folder(tmp_path / "to") as unfinished:
        assert not left.exists()
        (unfinished / "config.json").write_text("{}")
        delete_unfinished(tmp_path / "to")  # as another writer does
        assert unfinished.exists()
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*kept, "to"])


def test_the_file_of_a_killed_writer_is_deleted_by_the_next(tmp_path):
    (tmp_path / ".v.npy.0123456789abcdef").write_bytes(b"half")
    write_output(tmp_path / "v.npy", b"whole", "--to")
    assert [path.name for path in tmp_path.iterdir()] == ["v.npy"]


def test_what_is_empty_is_deleted_when_no_writer_can_be_about_to_lock_it(tmp_path):
    file, folder = (tmp_path / f".v.{number:016x}" for number in range(2))
    file.touch()
    folder.mkdir()
    delete_unfinished(tmp_path / "v")
    assert file.exists() and folder.exists()
    for path in (file, folder):
        os.utime(path, (0, 0))
    delete_unfinished(tmp_path / "v")
    assert not [*tmp_path.iterdir()]
