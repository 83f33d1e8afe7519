"""What may not be looked at is not missing."""

import os
import subprocess
import sys

import pytest
from etils import epath

from research.files.checksums import find_damage, write_checksums
from research.files.existence import exists, files_in, is_file

LOOK = """
import os, sys
from launch.cli import exit_code_for
from research.files.existence import exists, files_in, is_file
if os.getuid() == 0:
    os.setuid(65534)
for look in (
    lambda path: exists(path + "/x.json"),
    lambda path: is_file(path + "/x.json"),
    lambda path: files_in(path, ""),
):
    try:
        print(look(sys.argv[1]))
    except OSError as error:
        print(*exit_code_for(error))
"""


def test_what_is_there_and_what_is_missing(tmp_path):
    (tmp_path / "b.json").touch()
    (tmp_path / "a.json").touch()
    (tmp_path / "c.txt").touch()
    (tmp_path / "link").symlink_to("nowhere")
    assert exists(tmp_path) and exists(tmp_path / "c.txt")
    missing = ("x", "link", "c.txt/x", 300 * "x")
    assert not any(exists(tmp_path / name) for name in missing)
    assert [path.name for path in files_in(tmp_path, ".json")] == ["a.json", "b.json"]
    assert files_in(tmp_path / "x", "") == []


def test_a_pipe_is_no_file(tmp_path):
    """It would be waited for: of a checkpoint it is damage."""
    path = tmp_path / "array"
    path.write_bytes(b"1")
    write_checksums(epath.Path(tmp_path))
    assert is_file(path) and not is_file(tmp_path)
    path.unlink()
    os.mkfifo(path)
    assert exists(path) and not is_file(path)
    assert find_damage(epath.Path(tmp_path)) == "array is missing"


def test_without_permission_nothing_counts_as_missing(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir(mode=0)
    command = [sys.executable, "-c", LOOK, str(folder)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = output.splitlines()
    assert len(lines) == 3
    for line in lines:
        assert line.startswith("2 ") and str(folder) in line and "no permission" in line


def test_other_errors_of_the_system_are_raised(tmp_path):
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError):
        exists(os.fspath(tmp_path / "circle" / "x"))
