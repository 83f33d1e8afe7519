"""Lines of text files, decoded; each error has the number of its line."""

import json
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from research.data.documents import Document
from research.data.formats import FileOptions, LineError, Parsed


def line_feeds(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines; without a line feed, carriage returns end lines."""
    for line in lines:
        if line.endswith(b"\n"):
            yield line
        else:
            yield from line.replace(b"\r", b"\n").splitlines(keepends=True)


def parse_lines(file: BinaryIO, options: FileOptions) -> Parsed:
    """Each line, without its end; a blank one is a document without text."""
    for number, line in enumerate(line_feeds(file), 1):
        text = decode(line, number).rstrip("\r\n")
        yield Document(text, id=f":{number}")


def json_rows(file: BinaryIO) -> Iterator[tuple[int, Any]]:
    """(number, value) of each line of JSON that is not blank."""
    for number, line in enumerate(line_feeds(file), 1):
        if line.isspace():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError) as error:
            raise LineError(number, f"not a JSON object ({error})") from error


def decode(line: bytes, number: int) -> str:
    """The text of a line, without the byte order mark that a file may begin with."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise LineError(number, f"not UTF-8 ({error.reason})") from error


def replace_surrogates(text: str) -> str:
    """The text, with U+FFFD for the lone surrogates that JSON allows."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
