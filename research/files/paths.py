"""Paths of folders that may be in a bucket."""

import os

from etils import epath


def is_in_bucket(path: epath.PathLike) -> bool:
    """Whether a path is a URL, such as gs://BUCKET/NAME."""
    return "://" in os.fspath(path)


def absolute_path(path: epath.PathLike) -> epath.Path:
    """A path as other programs and machines can use it: absolute, or a bucket's URL."""
    text = os.fspath(path)
    return epath.Path(text if is_in_bucket(text) else os.path.abspath(text))
