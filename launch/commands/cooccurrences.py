"""Counts how often words meet: `palimpsest cooccurrences --texts=F --to=C`.

F has a text on each line, or is a .jsonl whose lines have a `text`; words are between
white space. C, named NAME.cooccurrences, gets a line for each two words that meet: the
words and a number, between tabs, in a random order. experiments/glove.py learns it.

--window=15 words to each side, at distance k counted by 1 / k; --min-count=5 leaves out
words that are rarer; --max-words=N leaves out all but the N most frequent. It takes
about a gigabyte of memory, whatever the length of the text, and beside C for a while
some 16 bytes a pair of files.
"""

import argparse
import sys
from pathlib import Path

from launch.cli import Parser, main, whole

LINES_AT_ONCE = 2**17


def run(args: argparse.Namespace) -> None:
    from research.contract.errors import UserError
    from research.data.cooccurrences import count_cells, count_words, shuffle_cells
    from research.data.read.files import iter_texts
    from research.files.output_files import check_output, folder_beside, write_output

    to = Path(args.to)
    if to.suffix != ".cooccurrences":
        raise UserError(f"--to={args.to}: its name ends in .cooccurrences; give such")
    source = Path(args.texts)
    check_output(to, "--to", {"--texts": source})
    words = count_words(iter_texts(source), args.min_count, args.max_words)
    if not words:
        raise UserError(
            f"--texts={args.texts} has no word that occurs {args.min_count} times; "
            "lower --min-count"
        )
    with folder_beside(to) as folder:
        cells = count_cells(iter_texts(source), words, args.window, folder)
        if not len(cells):
            raise UserError(
                f"--texts={args.texts} has no line with two words that occur "
                f"{args.min_count} times; give a text with more words to a line"
            )
        parts = shuffle_cells(cells, args.seed, folder)
        write_output(to, _lines(parts, words), "--to")
        print(f"{args.to}: {len(cells)} pairs of {len(words)} words", file=sys.stderr)


def _lines(parts, words: list[str]):
    """The lines of cells, some at a time."""
    import numpy as np

    for part in parts:
        for begin in range(0, len(part), LINES_AT_ONCE):
            cells = part[begin : begin + LINES_AT_ONCE]
            columns = *np.divmod(cells["key"], len(words)), cells["count"]
            yield "".join(
                f"{words[first]}\t{words[second]}\t{count:.9g}\n"
                for first, second, count in zip(
                    *(column.tolist() for column in columns), strict=True
                )
            ).encode()


def parser() -> Parser:
    parser = Parser(__doc__, overrides=False)
    parser.add_path("--texts", required=True, help="file, a text on each line")
    parser.add_path("--to", required=True, help="NAME.cooccurrences, written")
    parser.add_argument("--window", type=whole(1), default=15, help="words")
    parser.add_argument("--min-count", type=whole(1), default=5, help="of a word")
    parser.add_argument("--max-words", type=whole(0), default=0, help="0: all")
    parser.add_argument("--seed", type=whole(0), default=0, help="of the order")
    return parser


if __name__ == "__main__":
    main(run, parser())
