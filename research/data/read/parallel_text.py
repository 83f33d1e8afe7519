"""Parallel text whose sides are files: line n of each is a part of one example.

With data.fields=en,de these are files such as train.en.gz and train.de.gz: their names
differ only in the last suffix before that of a compression, which names the side.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from research.contract.errors import UserError
from research.data.documents import Document
from research.data.read.compression import file_suffixes
from research.data.read.formats import COMPRESSIONS, FileOptions, Parsed
from research.data.read.formats.parsing.rows import row_documents


def side_suffixes(options: FileOptions) -> tuple[str, ...]:
    """The suffixes of files that are sides, each also with those of compression."""
    sides = filter(None, (*options.fields, options.label))
    return tuple(f".{side}{end}" for side in sides for end in COMPRESSIONS)


def group_sides(
    files: Iterable[Path], options: FileOptions
) -> tuple[list[tuple[Path, ...]], list[Path]]:
    """The parallel texts among some files, and the files that belong to none.

    A text is the tuple of its sides' files, in the order of `fields`, followed by the
    file of labels if `label` is given. Other sides of a text are left out, as unnamed
    columns of a table are.

    Raises:
      UserError: a text lacks a side, or has two files for one.
    """
    texts: dict[Path, dict[str, list[Path]]] = {}
    for file in files:
        suffix, compression = file_suffixes(file)
        stem = file.with_name(file.name.removesuffix(suffix + compression))
        texts.setdefault(stem, {}).setdefault(suffix[1:], []).append(file)
    named = {*options.fields, options.label} - {""}
    found, others = [], []
    for stem, sides in texts.items():
        if named.isdisjoint(sides):
            others += itertools.chain(*sides.values())
        else:
            found.append(_named_sides(stem, sides, options))
    return found, others


def _named_sides(
    stem: Path, sides: dict[str, list[Path]], options: FileOptions
) -> tuple[Path, ...]:
    """The files of a text that `options` names, see `group_sides`."""
    files, fields = [], ",".join(options.fields)
    for side in filter(None, (*options.fields, options.label)):
        if side not in sides and not (side == options.label and options.optional):
            there = ", ".join(file.name for file in itertools.chain(*sides.values()))
            raise UserError(
                f"{stem}.{side}: no such file beside {there}, but "
                f"data.fields={fields} needs it; a glob such as {stem}.* names all"
            )
        if len(same := sides.get(side, ())) > 1:
            raise UserError(
                f"{same[0]} and {same[1]} are the same side of a text; name one"
            )
        files += same
    return tuple(files)


def read_sides(
    files: Sequence[Path], sides: Sequence[Iterator[Document]], options: FileOptions
) -> Parsed:
    """A document for each n, whose parts are line n of each file.

    Args:
      files: a text of `group_sides`.
      sides: the lines of each file, as documents.

    Raises:
      UserError: a file has more lines than another.
    """
    names = [file_suffixes(file)[0][1:] for file in files]
    amount_read = 0

    def rows() -> Iterator[tuple[int, dict[str, str]]]:
        nonlocal amount_read
        for number, lines in enumerate(itertools.zip_longest(*sides), 1):
            if None in lines:
                raise _unequal(files, lines, sides, number)
            amount_read = sum(line.amount_read for line in lines)
            texts = (line.text for line in lines)
            yield number, dict(zip(names, texts, strict=True))

    for document in row_documents(rows(), options):
        if isinstance(document, Document):
            document = document._replace(amount_read=amount_read)
        yield document


def _unequal(
    files: Sequence[Path],
    lines: Sequence[Document | None],
    sides: Sequence[Iterator[Document]],
    number: int,
) -> UserError:
    """The error for files with different numbers of lines."""
    counts = (
        f"{file} has {number - 1 if line is None else number + sum(1 for _ in side)}"
        for file, line, side in zip(files, lines, sides, strict=True)
    )
    return UserError(
        "files of one parallel text must have equal numbers of lines: "
        f"{', '.join(counts)}"
    )
