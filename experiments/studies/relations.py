"""Relations of two marked entities as a classification of texts.

    python -m experiments.studies.relations --rows=val_wiki.json.gz --to=fewrel
    python -m experiments.studies.relations --rows=TRAIN_FILE.TXT --to=semeval

writes train.jsonl and valid.jsonl of FewRel, or of SemEval-2010 task 8 (Hendrickx et
al. 2010, section 3). # stands around the head and $ around the tail, as in ERNIE's
fine-tuning (Zhang et al. 2019, section 3.5; thunlp/ERNIE at 514cbe4); SemEval's head is
e1, and its labels have the direction.

FewRel's own splits have other relations each, for few-shot learning: of each relation
four sentences of seven in the order of the file are for training and one for
validation. Of SemEval's training sentences those with the numbers 1, 6, 11, ... are for
validation; its one sentence of Entity-Destination(e2,e1) is not among them.
"""

import argparse
import gzip
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launch import cli
from research.contract.errors import UserError

MARKS = {"h": "#", "t": "$"}
OF_SEVEN = ("train",) * 4 + ("valid", "", "")
"""The split of each sentence of FewRel; "": none."""
SEMEVAL = re.compile(
    r'(\d+)\s+"(.*)<e1>(.*)</e1>(.*)<e2>(.*)</e2>(.*)"\s*\n(\S+)\s*(\nComment:.*)?'
)
"""Number, sentence, relation, and a comment of any lines."""


def marked(row: Mapping[str, Any]) -> str:
    """The text of a sentence of FewRel, with marks around both of its entities."""
    tokens = list(row["tokens"])
    for end, mark in MARKS.items():
        place = row[end][2][0]  # of the first mention
        tokens[place[0]] = f"{mark} {tokens[place[0]]}"
        tokens[place[-1]] = f"{tokens[place[-1]]} {mark}"
    return " ".join(tokens)


def fewrel(relations: Mapping[str, list]) -> Iterator[tuple[str, dict[str, str]]]:
    """Pairs of a split and a row with text and label."""
    for label, rows in sorted(relations.items()):
        for n, row in enumerate(rows):
            if name := OF_SEVEN[n % 7]:
                yield name, {"text": marked(row), "label": label}


def semeval(content: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Pairs of a split and a row with text and label.

    Raises:
      UserError: lines that are no numbered sentence, relation and comment.
    """
    for lines in re.split(r"\n\s*\n", content.replace("\r\n", "\n").strip()):
        if not (found := SEMEVAL.fullmatch(lines)):
            raise UserError(
                "SemEval's sentences must be a number, \"a sentence with <e1> and "
                '<e2>", a line with the relation, and a comment, with an empty line '
                f"between two; got {lines[:80]!r}"
            )
        number, before, head, between, tail, after, label, _ = found.groups()
        text = f"{before}# {head} #{between}$ {tail} ${after}"
        name = "valid" if int(number) % 5 == 1 else "train"
        yield name, {"text": text, "label": label}


def run(args: argparse.Namespace) -> None:
    from research.files.output_files import write_output

    content = Path(args.rows).read_bytes()
    if args.rows.endswith(".gz"):
        content = gzip.decompress(content)
    in_json = content.lstrip().startswith(b"{")
    rows = fewrel(json.loads(content)) if in_json else semeval(content.decode())
    files: dict[str, list[str]] = {"train": [], "valid": []}
    for name, row in rows:
        files[name].append(json.dumps(row, ensure_ascii=False) + "\n")
    for name, lines in files.items():
        path = f"{args.to}/{name}.jsonl"
        write_output(path, "".join(lines).encode(), "--to")
        print(f"{path}: {len(lines):,} sentences")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path(
        "--rows", required=True, help="FewRel's JSON or SemEval's text, or its .gz"
    )
    parser.add_path("--to", required=True, help="folder that is written")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
