"""A corpus of at most N words for BabyLM, from several sources: counted and hashed.

    python experiments/studies/babylm_corpus.py --to=corpus --words=10000000 \\
        childes='babylm/childes*' gutenberg='babylm/gutenberg*' novels='novels/*:20000'

Each source is NAME=FILES or NAME=FILES:WORDS, the most words that it gives; sources are
read in their order until the budget is used, so that the last one fills it up. Files
are text or JSON lines with a key `text`, gzipped or not. Lines begin with speakers
(`*MOT:`, `A:`), else with sentences and titles (`= = = Kite = = =`), which windows of
joined text have lost; a document has at most --lines lines, and one that has occurred
is left out. Writes TO/NAME.txt, with a blank line between documents, and
TO/corpus.json: for each source its files with their SHA-256, the words (`str.split`),
documents and the SHA-256 of what was written.
"""

import glob
import gzip
import hashlib
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from launch import cli
from research.contract.errors import UserError

SPEAKER = re.compile(r"\s+(?=\*[A-Z0-9]{3}:|[AB]:\s)")
SENTENCE = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"')]))\s+(?=[A-Z\"'(])|\s+(?== = = \S)"
)


def read_texts(path: Path) -> Iterator[str]:
    """The text of a file, or the texts of its lines of JSON."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data, path = gzip.decompress(data), path.with_suffix("")
    text = data.decode("utf-8-sig")
    if path.suffix != ".jsonl":
        yield text
        return
    for line in text.splitlines():
        yield json.loads(line)["text"]


def documents(text: str, num_lines: int) -> Iterator[str]:
    """The text as documents of a few lines."""
    lines = [
        " ".join(line.split())
        for part in text.splitlines()
        for line in (SPEAKER if SPEAKER.search(part) else SENTENCE).split(part)
    ]
    lines = [line for line in lines if line]
    for start in range(0, len(lines), num_lines):
        yield "\n".join(lines[start : start + num_lines])


def write_source(
    path: Path, files: list[Path], most: int, lines: int, seen: set
) -> Any:
    """Writes at most so many words of a source; returns what corpus.json says of it."""
    words, count, digest = 0, 0, hashlib.sha256()
    with path.open("wb") as file:
        texts = (text for name in files for text in read_texts(name))
        for document in itertools.chain.from_iterable(
            documents(text, lines) for text in texts
        ):
            key = hashlib.blake2b(document.encode(), digest_size=8).digest()
            size = len(document.split())
            if words + size > most:
                break
            if key in seen:
                continue
            seen.add(key)
            data = f"{document}\n\n".encode()
            file.write(data)
            digest.update(data)
            words, count = words + size, count + 1
    sources = {
        str(name): hashlib.sha256(name.read_bytes()).hexdigest() for name in files
    }
    found = {"words": words, "documents": count, "sha256": digest.hexdigest()}
    return {"file": path.name} | found | {"sources": sources}


def run(args: Any) -> None:
    to, left, seen = Path(args.to), args.words, set()
    to.mkdir(parents=True, exist_ok=True)
    parts = []
    for source in args.sources:
        name, _, pattern = source.partition("=")
        pattern, _, most = pattern.partition(":")
        files = [Path(path) for path in sorted(glob.glob(pattern))]
        if not files or (most and not most.isdecimal()):
            raise UserError(
                f"{source} must be NAME=FILES or NAME=FILES:WORDS, of files that exist"
            )
        budget = min(left, int(most or left))
        part = write_source(to / f"{name}.txt", files, budget, args.lines, seen)
        parts.append(part)
        left -= part["words"]
        print(f"{name}: {part['words']:,} words in {part['documents']:,} documents")
    content = {"words": args.words - left, "parts": parts}
    (to / "corpus.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    print(f"{content['words']:,} words; {to / 'corpus.json'}")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path("--to", required=True, help="folder of the corpus")
    parser.add_argument("--words", type=cli.whole(1), default=10_000_000)
    help = "of a document at most"
    parser.add_argument("--lines", type=cli.whole(1), default=8, help=help)
    parser.add_argument("sources", nargs="+", help="NAME=FILES[:WORDS]")
    return parser


if __name__ == "__main__":
    cli.main(run, parser(), sys.argv[1:])
