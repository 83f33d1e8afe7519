"""Texts as words and marks in lower case, with a space between them: one JSONL file.

    python -m experiments.studies.words_apart \\
        --to=words/wiki.jsonl wiki-0.jsonl.gz wiki-1.jsonl.gz
    python -m experiments.studies.words_apart \\
        --to=words/de.jsonl train.de.gz

A vocabulary of words (data.vocabulary=words) splits at white space alone, and the texts
of tasks have a space before marks and before n't, 's and the like. A JSONL file has a
document a line, in `text`; of any other file a line is one. A line of the result has
one sentence each, where a sentence ends with a mark and a space.
"""

import argparse
import gzip
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from launch import cli
from research.contract.errors import UserError
from research.files.output_files import write_output

ENDINGS = "s|re|ve|ll|d|m"
WORDS = re.compile(rf"n't|'(?:{ENDINGS})\b|\w+(?:-\w+)*|[^\w\s]")
TAGS = re.compile(r"<br ?/?>")


def words_apart(text: str) -> str:
    """The text's words and marks with a space between them."""
    text = re.sub(r"n't\b", " n't", TAGS.sub(" ", text).lower())
    return " ".join(WORDS.findall(re.sub(rf"'({ENDINGS})\b", r" '\1", text)))


def documents(path: Path) -> Iterator[str]:
    """The texts of a file.

    Raises:
      UserError: there is no such file, or a line of JSONL has no `text`.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", -1, "utf-8") as file:
        for number, line in enumerate(file, 1):
            if ".jsonl" not in path.suffixes:
                yield line
                continue
            try:
                yield json.loads(line)["text"]
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f'{path}, line {number}: {error!r}; it is JSON with "text"'
                ) from error


def lines(paths: Iterable[Path]) -> Iterator[bytes]:
    """The lines of the JSONL file."""
    for path in paths:
        for text in documents(path):
            sentences = re.split(r"(?<=[.!?])\s+|\n", text)
            if found := "\n".join(filter(None, map(words_apart, sentences))):
                yield json.dumps({"text": found}).encode() + b"\n"


def run(args: argparse.Namespace) -> int:
    write_output(args.to, lines(args.files), "--to")
    return 0


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_argument("files", nargs="+", type=Path, help="texts, also gzipped")
    parser.add_argument("--to", required=True, help="the JSONL file")
    return parser


if __name__ == "__main__":
    sys.exit(cli.main(run, parser()))
