"""A bucket that is a folder of this machine: paths that begin with gs://."""

import contextlib
import os
from pathlib import Path

import pytest
from etils.epath import gpath
from etils.epath.backend import os_backend
from orbax.checkpoint._src.path import gcs_utils

SCHEME = "gs://"


class GFile:
    """What a file of TensorFlow's `tf.io.gfile` has, and no more."""

    def __init__(self, path: str, mode: str):
        assert mode in ("r", "rb", "w", "wb"), f"a bucket cannot append: {mode}"
        encoding = None if "b" in mode else "utf-8"
        if "w" in mode:  # a bucket has no folders
            os.makedirs(os.path.dirname(path), exist_ok=True)
        file = open(path, mode, encoding=encoding)  # noqa: SIM115
        self.read, self.write, self.close = file.read, file.write, file.close
        self.readline, self.readlines = file.readline, file.readlines
        self.flush, self.seek, self.tell = file.flush, file.seek, file.tell


class Bucket:
    """The files of a bucket, as `epath` reads and writes them by TensorFlow."""

    def __init__(self, folder: Path):
        self.folder = folder

    def local(self, path: os.PathLike | str) -> str:
        """The path on this machine."""
        name = os.fspath(path)
        assert name.startswith(SCHEME), f"{name} is not in the bucket"
        return str(self.folder / name.removeprefix(SCHEME))

    @contextlib.contextmanager
    def open(self, path, mode):
        file = GFile(self.local(path), mode)
        try:
            yield file
        finally:
            file.close()

    def exists(self, path):
        return os_backend.exists(self.local(path))

    def isdir(self, path):
        return os_backend.isdir(self.local(path))

    def listdir(self, path):
        """Names; those of folders end with a slash."""
        local = self.local(path)
        names = os_backend.listdir(local)
        return [n + "/" * os.path.isdir(os.path.join(local, n)) for n in names]

    def glob(self, path):
        found = os_backend.glob(self.local(path))
        return [SCHEME + os.path.relpath(name, self.folder) for name in found]

    def makedirs(self, path, *, exist_ok=False, mode=None):
        os_backend.makedirs(self.local(path), exist_ok=exist_ok)

    mkdir = makedirs

    def rmtree(self, path):
        os_backend.rmtree(self.local(path))

    def remove(self, path):
        os_backend.remove(self.local(path))

    def rename(self, path, dst):
        os_backend.rename(self.local(path), self.local(dst))

    def replace(self, path, dst):
        os_backend.replace(self.local(path), self.local(dst))

    def copy(self, path, dst, overwrite):
        os_backend.copy(self.local(path), self.local(dst), overwrite)

    def stat(self, path):
        return os_backend.stat(self.local(path))


def install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Makes gs://BUCKET/NAME the file FOLDER/BUCKET/NAME; returns `folder`.

    Orbax takes such a path for a bucket's, and writes its arrays to the folder, too.
    """
    bucket, own = Bucket(folder), gpath._GPath._backend.fget

    def backend_of(path):
        return bucket if path._uri_scheme == "gs" else own(path)

    def kvstore(path):
        return {"driver": "file", "path": bucket.local(path)}

    monkeypatch.setattr(gpath._GPath, "_backend", property(backend_of))
    monkeypatch.setattr(gcs_utils, "get_kvstore_for_gcs", kvstore)
    monkeypatch.setattr(gcs_utils, "is_hierarchical_namespace_enabled", lambda _: False)
    return folder
