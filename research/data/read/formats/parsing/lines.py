"""Lines of text files, decoded; each error has the number of its line."""

import json
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from typing import Any, BinaryIO

from research.data.documents import Document
from research.data.read.formats import EncodingError, FileOptions, LineError, Parsed


def line_feeds(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines; if there is no line feed, carriage returns end lines."""
    for line in lines:
        if line.endswith(b"\n"):
            yield line
        else:
            yield from line.replace(b"\r", b"\n").splitlines(keepends=True)


def split_lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of `line_feeds`, each with its own line end."""
    for line in lines:
        yield from [line] if line.endswith(b"\n") else line.splitlines(keepends=True)


def parse_lines(file: BinaryIO, options: FileOptions) -> Parsed:
    """Each line, without its end; a blank one is a document without text."""
    for number, line in enumerate(line_feeds(file), 1):
        text = decode(line, number).rstrip("\r\n")
        yield Document(text, id=f":{number}")


def json_rows(file: BinaryIO, keys: Collection[str] = ()) -> Iterator[tuple[int, Any]]:
    """(number, value) of each line of JSON that is not blank.

    Args:
      keys: those that are read; a line has each of them at most once.
    """
    for number, line in enumerate(line_feeds(file), 1):
        if line.isspace():
            continue
        try:
            hook = partial(_checked_object, number, keys) if keys else None
            yield number, json.loads(line, object_pairs_hook=hook)
        except UnicodeDecodeError as error:
            raise EncodingError(number, f"not UTF-8 ({error.reason})") from error
        except json.JSONDecodeError as error:
            reason = f"{error.msg.removesuffix(' at')}, column {error.colno}"
            raise LineError(number, f"not a JSON object ({reason})") from error
        except (ValueError, RecursionError) as error:
            raise LineError(number, f"not a JSON object ({error})") from error


def _checked_object(
    number: int, keys: Collection[str], pairs: list[tuple[str, Any]]
) -> dict[str, Any]:
    """The object of (key, value) pairs, in which none of `keys` occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        if twice := [key for key in keys if names.count(key) > 1]:
            raise LineError(number, f"several keys are named {twice[0]!r}")
    return found


def decode(line: bytes, number: int) -> str:
    """The text of a line, without the byte order mark that a file may begin with."""
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise EncodingError(number, f"not UTF-8 ({error.reason})") from error


def replace_surrogates(text: str) -> str:
    """The text, with U+FFFD for the lone surrogates that JSON allows."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
