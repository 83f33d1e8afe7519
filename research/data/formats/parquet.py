"""Parquet: columns have names."""

from dataclasses import dataclass
from typing import BinaryIO

from research.data.formats import FileFormat, FileOptions, LineError, Parsed
from research.data.formats.parsing.rows import check_names, row_documents


@dataclass(frozen=True)
class Format(FileFormat):
    """data.fields and data.label are columns; without `fields` text is in `text`."""

    suffixes = (".parquet",)
    is_encoded = False

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        import pyarrow  # only where there is such a file
        from pyarrow import parquet

        try:
            table = parquet.ParquetFile(file)
            batches = table.iter_batches()
        except pyarrow.ArrowInvalid as error:
            raise LineError(1, f"not Parquet ({str(error).splitlines()[0]})") from error
        options = options._replace(fields=options.fields or ("text",))
        check_names(1, table.schema_arrow.names, options)
        rows = enumerate((row for batch in batches for row in batch.to_pylist()), 1)
        yield from row_documents(rows, options)
