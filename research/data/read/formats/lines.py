"""Lines: a text each, after its label by data.label=prefix or coarse_prefix."""

from dataclasses import dataclass
from typing import BinaryIO

from research.data.documents import Document
from research.data.read.formats import (
    FILE_LABELS,
    FileFormat,
    FileOptions,
    LineError,
    Parsed,
)
from research.data.read.formats.parsing.lines import decode, line_feeds

MIN_LINES = 20
"""Lines of a file from which on it is told whether prefixes are labels."""


@dataclass(frozen=True)
class Format(FileFormat):
    """data.fields has no meaning; data.label says where a line's label is.

    It is `prefix`, the text before the first white space (TREC: DESC:manner How did
    ...), `coarse_prefix`, that before its first colon (DESC), or the part of a file's
    path that is the label of its lines (`FILE_LABELS`); without it they have none.
    """

    suffixes = ()
    example = b"A text.\nAnother one.\n"
    label_rules = ("prefix", "coarse_prefix", *FILE_LABELS)

    def parse(self, file: BinaryIO, options: FileOptions) -> Parsed:
        has_prefix, labels, count = "prefix" in options.label, set(), 0
        for number, line in enumerate(line_feeds(file), 1):
            text, label = decode(line, number).strip(), None
            if text and has_prefix:
                label, text = _split(text, options.label, number)
                labels.add(label)
                count += 1
            yield Document(text, label, id=f":{number}")
        if count >= MIN_LINES and len(labels) > count / 2:
            raise LineError(
                1,
                f"data.label={options.label}: {count} lines have {len(labels)} labels, "
                f"such as {min(labels)!r:.40}; these seem to be texts without labels",
            )


def _split(line: str, rule: str, number: int) -> tuple[str, str]:
    """The label of a line by a rule, and the text after its prefix.

    Raises:
      LineError: there is no text after the prefix, or no colon in it.
    """
    prefix, *text = line.split(maxsplit=1)
    if not text:
        raise LineError(
            number, f"data.label={rule}: no text follows the label {prefix!r:.40}"
        )
    if rule == "prefix":
        return prefix, text[0]
    label, colon, _ = prefix.partition(":")
    if not label or not colon:
        raise LineError(
            number,
            f"data.label={rule} reads the first word up to its colon, but "
            f"{prefix!r:.40} has no colon; data.label=prefix reads the whole word",
        )
    return label, text[0]
