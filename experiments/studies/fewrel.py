"""FewRel's sentences as a classification of texts with marked entities.

    python -m experiments.studies.fewrel --rows=val_wiki.json.gz --to=fewrel

writes fewrel/train.jsonl, of each relation four sentences of seven in the order of the
file, and fewrel/valid.jsonl, one of seven. # stands around the head and $ around the
tail, as in ERNIE's fine-tuning (Zhang et al. 2019, section 3.5; thunlp/ERNIE at
514cbe4). FewRel's own splits have other relations each, for few-shot learning.
"""

import argparse
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launch import cli

MARKS = {"h": "#", "t": "$"}
OF_SEVEN = ("train",) * 4 + ("valid", "", "")
"""The split of each sentence; "": none."""


def marked(row: Mapping[str, Any]) -> str:
    """The text of a sentence, with marks around both of its entities."""
    tokens = list(row["tokens"])
    for end, mark in MARKS.items():
        place = row[end][2][0]  # of the first mention
        tokens[place[0]] = f"{mark} {tokens[place[0]]}"
        tokens[place[-1]] = f"{tokens[place[-1]]} {mark}"
    return " ".join(tokens)


def split(relations: Mapping[str, list]) -> Iterator[tuple[str, dict[str, str]]]:
    """Pairs of a split and a row with text and label."""
    for label, rows in sorted(relations.items()):
        for n, row in enumerate(rows):
            if name := OF_SEVEN[n % 7]:
                yield name, {"text": marked(row), "label": label}


def run(args: argparse.Namespace) -> None:
    from research.files.output_files import write_output

    content = Path(args.rows).read_bytes()
    if args.rows.endswith(".gz"):
        content = gzip.decompress(content)
    files: dict[str, list[str]] = {"train": [], "valid": []}
    for name, row in split(json.loads(content)):
        files[name].append(json.dumps(row, ensure_ascii=False) + "\n")
    for name, lines in files.items():
        path = f"{args.to}/{name}.jsonl"
        write_output(path, "".join(lines).encode(), "--to")
        print(f"{path}: {len(lines):,} sentences")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path("--rows", required=True, help="a JSON file of FewRel, or its .gz")
    parser.add_path("--to", required=True, help="folder that is written")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
