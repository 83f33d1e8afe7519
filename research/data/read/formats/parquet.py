"""Parquet: columns have names."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from research.data.read.formats import FileFormat, FileOptions, LineError, Parsed
from research.data.read.formats.parsing.rows import check_names, row_documents


@dataclass(frozen=True)
class Format(FileFormat):
    """data.fields and data.label are columns; without `fields` text is in `text`."""

    suffixes = (".parquet",)
    has_columns = True
    is_encoded = False

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        import pyarrow  # only if there is such a file
        from pyarrow import parquet

        try:
            table = parquet.ParquetFile(file)
            batches = table.iter_batches()
        except (pyarrow.ArrowInvalid, OSError) as error:
            if getattr(error, "errno", None):  # of the system, not of pyarrow
                raise
            raise LineError(1, f"not Parquet ({str(error).splitlines()[0]})") from error
        options = options._replace(fields=options.fields or ("text",))
        check_names(1, table.schema_arrow.names, options)
        yield from row_documents(_rows(batches), options)


def _rows(batches: Iterable[Any]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Number, from 1, and values of each row.

    Raises:
      LineError: a batch is damaged.
    """
    number = 0
    try:
        for batch in batches:
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (ValueError, OSError) as error:  # also text that is not UTF-8
        if getattr(error, "errno", None):
            raise
        reason = str(error).splitlines()[0]
        raise LineError(number + 1, f"a damaged column ({reason})") from error
