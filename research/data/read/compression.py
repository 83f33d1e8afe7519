"""Files that may be compressed or encoded: their suffixes and their content."""

import codecs
import gzip
import io
from pathlib import Path
from typing import BinaryIO

from research.data.read.formats import COMPRESSIONS, EncodingError


def file_suffixes(file: Path) -> tuple[str, str]:
    """The suffix of the format, and that of the compression, if it has one."""
    compression = file.suffix if file.suffix in COMPRESSIONS else ""
    return Path(file.name.removesuffix(compression)).suffix, compression


def decompressed(file: Path, raw: BinaryIO) -> BinaryIO:
    """The content of a file that is open as `raw`."""
    match file.suffix:
        case ".gz":
            return io.BufferedReader(gzip.GzipFile(fileobj=raw))
        case ".zst":
            import pyarrow  # only if there is such a file

            return io.BufferedReader(pyarrow.input_stream(raw, compression="zstd"))
    return raw


def as_utf8(file: BinaryIO, encoding: str) -> BinaryIO:
    """The text of a file in UTF-8.

    Raises:
      EncodingError: while reading: a line has bytes that are invalid in the encoding.
    """
    return io.BufferedReader(_Recoded(file, encoding))


class _Recoded(io.RawIOBase):
    """A file's bytes decoded, and encoded as UTF-8."""

    def __init__(self, file: BinaryIO, encoding: str):
        self._file, self._encoding = file, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready, self._line, self._at_end = b"", 1, False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self._ready and not self._at_end:
            read = self._file.read(io.DEFAULT_BUFFER_SIZE)
            self._at_end = not read
            self._ready = self._decoded(read).encode("utf-8", "replace")
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count

    def _decoded(self, read: bytes) -> str:
        try:
            text = self._decoder.decode(read, final=self._at_end)
        except UnicodeError as error:
            before = b""
            if isinstance(error, UnicodeDecodeError):
                before = error.object[: error.start]
            line = self._line + before.decode(self._encoding, "replace").count("\n")
            reason = getattr(error, "reason", error)
            raise EncodingError(line, f"not {self._encoding} ({reason})") from error
        self._line += text.count("\n")
        return text
