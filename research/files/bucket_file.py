"""A file in a bucket that grows: a bucket cannot append, so it is written whole."""

import time

from etils import epath

UPLOAD_INTERVAL_S = 10.0
"""Seconds between two uploads of a file, of which a bucket allows about one a second
and which take longer as the file grows."""


class BucketFile:
    """A file of bytes that is kept in memory, and uploaded at intervals.

    Args:
      content: what it begins with.
    """

    def __init__(self, path: epath.PathLike, content: bytes = b""):
        self.path = epath.Path(path)
        self.content = bytearray(content)
        self.uploaded_size, self.uploaded = 0, -UPLOAD_INTERVAL_S

    def write(self, data: bytes) -> None:
        self.content += data

    def flush(self) -> None:
        """Uploads the file, unless that was done a few seconds ago."""
        if time.monotonic() - self.uploaded >= UPLOAD_INTERVAL_S:
            self.upload()

    def upload(self) -> None:
        """Uploads the file, if it has grown since it was uploaded."""
        if len(self.content) > self.uploaded_size:
            self.path.write_bytes(bytes(self.content))
            self.uploaded_size = len(self.content)
        self.uploaded = time.monotonic()

    def close(self) -> None:
        self.upload()
