"""Counts word co-occurrences: `palimpsest cooccurrences --texts=F --to=C`.

F has one text per line, or is a .jsonl whose lines have a `text`; words are separated
by white space. C, named NAME.cooccurrences, gets a line for each pair of words that
co-occur: the two words and a number, separated by tabs, in random order.
experiments/glove.py is trained on it.

--window=15 counts words within 15 to each side, at distance k with weight 1 / k;
--min-count=5 leaves out rarer words; --max-words=N keeps only the N most frequent. It
takes about a gigabyte of memory for texts of any length, and temporary files next to C
of about 16 bytes per pair.
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
        raise UserError(f"--to={args.to} must end in .cooccurrences")
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
    """The lines of the cells, in chunks."""
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
    parser.add_path("--texts", required=True, help="file with one text per line")
    parser.add_path("--to", required=True, help="output file NAME.cooccurrences")
    parser.add_argument("--window", type=whole(1), default=15, help="words per side")
    parser.add_argument("--min-count", type=whole(1), default=5, help="of a word")
    parser.add_argument("--max-words", type=whole(0), default=0, help="0: all")
    parser.add_argument("--seed", type=whole(0), default=0, help="of the line order")
    return parser


if __name__ == "__main__":
    main(run, parser())
