"""Counts how often words meet: `python -m launch.cooccurrences --texts=F --to=C`.

F has a text on each line, or is a .jsonl whose lines have a `text`; words are between
white space. C, named NAME.cooccurrences, gets a line for each two words that meet: the
words and a number, between tabs, in a random order. experiments/glove.py learns it.

--window=15 words to each side, at distance k counted by 1 / k; --min-count=5 leaves out
words that are rarer; --max-words=N leaves out all but the N most frequent.
"""

import argparse
import sys
from pathlib import Path

from launch.cli import Parser, main, whole


def run(args: argparse.Namespace) -> None:
    import numpy as np

    from research.data.cooccurrences import count_cells, count_words
    from research.data.corpora.files import read_texts
    from research.errors import UserError
    from research.files.output_files import write_output

    if Path(args.to).suffix != ".cooccurrences":
        raise UserError(f"--to={args.to}: its name ends in .cooccurrences; give such")
    texts = read_texts(Path(args.texts))
    words = count_words(texts, args.min_count, args.max_words)
    if not words:
        raise UserError(
            f"--texts={args.texts} has no word that occurs {args.min_count} times; "
            "lower --min-count"
        )
    cells = count_cells(texts, words, args.window)
    order = np.random.default_rng(args.seed).permutation(len(cells.count))
    columns = (array[order].tolist() for array in cells[1:])
    lines = [
        f"{words[first]}\t{words[second]}\t{count:.9g}\n"
        for first, second, count in zip(*columns, strict=True)
    ]
    write_output(args.to, "".join(lines), "--to")
    print(f"{args.to}: {len(lines)} pairs of {len(words)} words", file=sys.stderr)


def parser() -> Parser:
    parser = Parser(__doc__, overrides=False)
    parser.add_argument("--texts", required=True, help="file, a text on each line")
    parser.add_argument("--to", required=True, help="NAME.cooccurrences, written")
    parser.add_argument("--window", type=whole(1), default=15, help="words")
    parser.add_argument("--min-count", type=whole(1), default=5, help="of a word")
    parser.add_argument("--max-words", type=whole(0), default=0, help="0: all")
    parser.add_argument("--seed", type=whole(0), default=0, help="of the order")
    return parser


if __name__ == "__main__":
    main(run, parser())
