"""Paths as users write them: a home folder, a bucket, names that look like patterns."""

import pwd

import pytest

from research.contract.errors import UserError
from research.data.cache import resolve_cache_dir
from research.files.paths import absolute_path, find_paths, user_path

FOLDERS = ["layers=[2,4]", "runs [1]", "[a-z]", "a*b", "what?", "{x}", "[", "#%~"]


@pytest.mark.parametrize(
    "path, expected",
    [
        ("~", "/home/x"),
        ("~/runs", "/home/x/runs"),
        ("~nobody-of-this-name/runs", "~nobody-of-this-name/runs"),
        ("runs/~", "runs/~"),
        ("", ""),
        ("hf:~/model", "hf:~/model"),
        ("gs://bucket/~", "gs://bucket/~"),
    ],
)
def test_a_leading_tilde_is_the_home_folder(path, expected, monkeypatch):
    monkeypatch.setenv("HOME", "/home/x")
    assert user_path(path) == expected


@pytest.mark.parametrize("path", ["foo://x", "https://host/runs", "/tmp/a://b"])
def test_a_url_of_no_bucket_is_refused(path):
    with pytest.raises(
        UserError, match=r"nor a bucket: a bucket's URL begins with gs://"
    ):
        user_path(path)


def test_a_user_without_a_home_folder_is_one_line(monkeypatch):
    def getpwuid(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", getpwuid)
    with pytest.raises(UserError, match=r"~/runs: this user has no home folder"):
        user_path("~/runs")
    with pytest.raises(UserError, match=r"data.cache_dir=: .* set HOME"):
        resolve_cache_dir("")
    assert str(resolve_cache_dir("/tmp/cache")) == "/tmp/cache"


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_no_pattern_of_the_files_below(name, tmp_path):
    folder = tmp_path / name / "inner"
    folder.mkdir(parents=True)
    files = [folder / "a.txt", folder / "b.txt"]
    for file in files:
        file.write_text("a text")
    assert find_paths(folder / "*.txt") == files
    assert find_paths(tmp_path / name / "**/[b].txt") == files[1:]
    assert find_paths(files[0]) == files[:1]
    assert find_paths(folder / "*.csv") == []
    assert sorted(absolute_path(folder).glob("*.txt")) == files
    assert sorted(absolute_path(tmp_path / name).glob("inner/b*")) == files[1:]
