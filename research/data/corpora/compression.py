"""Files that may be compressed: their suffixes and their content."""

import gzip
import io
from pathlib import Path
from typing import BinaryIO

COMPRESSIONS = ("", ".gz", ".zst")


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
            import pyarrow  # only where there is such a file

            return io.BufferedReader(pyarrow.input_stream(raw, compression="zstd"))
    return raw
