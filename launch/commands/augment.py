"""Augments a task's text: `palimpsest augment --workdir=R --vectors=V ...`.

R is a run of a masked model, or hf:DIR. V is a file of word vectors, such as GloVe's.
--texts is a task's file, such as a .tsv; --fields names its columns of text (`text` by
default for .jsonl). The rows are written to --to, each followed by copies in which
words of one text are replaced; labels and other columns are copied from the row, so the
new file can be trained on like the original.

Each of --passes replaces each word with --probability by one of --candidates: the most
probable tokens of the masked model if the word is a single piece of its vocabulary, or
else the words with the nearest vectors (TinyBERT, Jiao et al. 2020). Stop words and
words that are not only letters are kept. Duplicate copies are left out.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from launch import cli

TEXTS_AT_ONCE = 512


def run(args: argparse.Namespace) -> None:
    from research.contract.errors import UserError, renamed_keys
    from research.data.progress import MANY, progress
    from research.data.read.compression import file_suffixes
    from research.data.read.files import iter_texts
    from research.data.read.formats.parsing import whole_rows
    from research.files.output_files import write_output
    from research.files.vector_files import read_vectors

    texts, to = Path(args.texts), Path(args.to)
    fields = tuple(filter(None, args.fields.split(",")))
    if to.is_file() or to.is_dir():
        raise UserError(f"--to={to} exists; give a new file")
    if Path(to.name).suffix != file_suffixes(texts)[0]:
        raise UserError(
            f"--to={to} does not end in {file_suffixes(texts)[0]}, as --texts does"
        )
    with renamed_keys({"data.fields": "--fields"}):
        table = whole_rows.read_whole_rows(texts, fields)
    words, vectors = read_vectors(Path(args.vectors))

    from research.evaluation.word_vectors import WordVectors
    from research.use.inference import augmentation
    from research.use.inference.open_run import open_run

    stop_words = augmentation.STOP_WORDS
    if args.stop_words:
        lines = iter_texts(Path(args.stop_words))
        stop_words = frozenset(line.strip().lower() for line in lines)
    augmenter = augmentation.Augmenter(
        open_run(args.workdir),
        WordVectors(words, vectors).first(args.limit),
        candidates=args.candidates,
        stop_words=stop_words,
    )
    totals = dict.fromkeys(augmentation.Counts._fields, 0)
    written = 0

    def lines() -> Iterator[bytes]:
        nonlocal written
        yield table.header.encode()
        count = len(table.rows)
        with progress("augment", count, silent=count < MANY) as report:
            for first in range(0, count, TEXTS_AT_ONCE):
                report(first, f"{first} of {count} rows")
                chunk, found = table.rows[first : first + TEXTS_AT_ONCE], {}
                for field in table.fields:
                    own = [row[field] for row in chunk]
                    found[field], counts = augmenter.words(own)
                    for name, number in counts._asdict().items():
                        totals[name] += number
                for at, row in enumerate(chunk):
                    new = [row]
                    for place, field in enumerate(table.fields):
                        others = augmentation.variants(
                            row[field],
                            found[field][at],
                            passes=args.passes,
                            probability=args.probability,
                            seed=(args.seed, first + at, place),
                        )
                        new += [whole_rows.with_text(row, field, o) for o in others]
                    written += len(new)
                    yield "".join(map(table.line_of, new)).encode()

    write_output(args.to, lines(), "--to")
    print(
        f"{args.to}: {written} rows of {len(table.rows)}; of their words "
        f"{totals['by_model']} have candidates of the model, {totals['by_vectors']} of "
        f"vectors, {totals['without']} none",
        file=sys.stderr,
    )


def parser() -> cli.Parser:
    from research.data.read.formats import whole_row_suffixes

    parser = cli.Parser(__doc__, overrides=False)
    add = parser.add_argument
    parser.add_path(
        "--workdir", required=True, models=True, help="folder of a run, or hf:DIR"
    )
    parser.add_path(
        "--vectors",
        required=True,
        help="file of word2vec, GloVe or fastText",
    )
    kinds = " or ".join(whole_row_suffixes())
    parser.add_path("--texts", required=True, help=f"file of a task, {kinds}")
    parser.add_path("--to", required=True, help="a new file of the same kind")
    add("--fields", default="", help="columns that are texts, as in data.fields")
    add("--passes", type=cli.whole(1), default=20, help="over each text, N (20)")
    help = "number of possible replacements of a word, M (15)"
    add("--candidates", type=cli.whole(1), default=15, help=help)
    help = "probability that a pass replaces a word, p (0.4)"
    add("--probability", type=cli.fraction, default=0.4, help=help)
    help = "read only the first N vectors (100000); 0: all"
    add("--limit", type=cli.whole(0), default=100_000, help=help)
    help = "file with one word per line; default: a list of English ones"
    parser.add_path("--stop_words", default="", help=help)
    add("--seed", type=cli.whole(0), default=0)
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
