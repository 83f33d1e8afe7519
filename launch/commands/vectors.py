"""Writes or queries word vectors: `palimpsest vectors --workdir=R --to=F`.

R is a run with a vocabulary of words, such as one of experiments/word2vec.py; --from
gives a file instead, in the format of word2vec (text or .bin), GloVe or fastText. The
format of F follows from its suffix: .txt (word2vec's text), .bin, .vec (fastText), or
from --format (glove: no header); a further .gz compresses it.

--nearest=river,king prints the ten nearest words of each; --analogies=F answers a file
of questions as word2vec's tool does; --similarity=F prints Spearman's correlation with
the ratings of a file, and how many of its pairs have vectors. --limit=30000 restricts
these two, and the written file, to the first, most frequent words, but not --nearest
(the first words of GloVe's runs have the most co-occurrences).

--texts=F, lines name<TAB>text, has entities instead of words: R encodes their texts, as
KEPLER does, and prints these next to the nearest names; vectors of a run of
experiments/transe.py have the names already. --before=R0 first prints the nearest words
of another run, such as the one that R started from.
"""

import argparse
import textwrap
from pathlib import Path

from launch.cli import Parser, main, whole


def run(args: argparse.Namespace) -> None:
    from research.contract.errors import UserError
    from research.evaluation.word_vectors import WordVectors, sums
    from research.files.output_files import check_output, write_output
    from research.files.paths import user_path
    from research.files.vector_files import encode_vectors, format_of, read_vectors

    if bool(args.workdir) == bool(args.source):
        raise UserError("give either --workdir, a run, or --from, a file of vectors")
    if not (args.to or args.nearest or args.analogies or args.similarity):
        raise UserError("give --to, --nearest, --analogies or --similarity")
    if args.to:
        form = format_of(args.to, args.format)
        check_output(args.to, "--to", {"--from": args.source})
    if args.before and not (args.workdir and args.nearest):
        raise UserError("--before needs --workdir and --nearest")
    texts = {}
    if args.texts:
        from research.data.read.lexicon import read_texts

        texts = read_texts(args.texts)
    if args.workdir:
        vectors = _of_run(args.workdir, texts)
    else:
        vectors = WordVectors(*read_vectors(Path(args.source)))
    first = vectors.first(args.limit)
    if args.to:
        is_gzip = args.to.endswith(".gz")
        content = encode_vectors(first.words, first.vectors, form, compress=is_gzip)
        write_output(args.to, content, "--to")
        width = first.vectors.shape[1]
        print(f"{args.to}: {len(first)} vectors of width {width}")
    shown = {"": vectors}
    if args.before:
        shown = {"before, ": _of_run(args.before, texts), "after, ": vectors}
    for word in filter(None, args.nearest.split(",")):
        for when, each in shown.items():
            found = ", ".join(
                f"{_named(near, texts)} {cos:.3f}" for near, cos in each.nearest(word)
            )
            print(f"{when}{_named(word, texts)}: {found}")
    if args.analogies:
        counts = first.answer_analogies(Path(args.analogies))
        totals = {f"total, {name}": count for name, count in sums(counts).items()}
        for name, count in [*counts.items(), *totals.items()]:
            print(
                f"{name}: {100 * count.accuracy:.2f} % ({count.correct} of "
                f"{count.known} known of {count.total})"
            )
    for name in filter(None, args.similarity.split(",")):
        found = first.compare_similarities(Path(user_path(name)))
        print(
            f"{Path(name).name}: Spearman {found.spearman:.4f} ({found.known} of "
            f"{found.total} pairs known)"
        )


def _of_run(workdir: str, texts: dict[str, str]):
    """The vectors of a run's words, or of `texts` if its vocabulary has no words."""
    from research.evaluation.word_vectors import WordVectors
    from research.use.inference.open_run import open_run

    model = open_run(workdir)
    if not texts or model.run.vocabulary.type.has_words:
        return model.word_vectors
    length = getattr(model.run.objective, "description", 0)
    encoded = model.encode([*texts.values()], pool="class", max_length=length)
    return WordVectors([*texts], encoded)


def _named(name: str, texts: dict[str, str]) -> str:
    """A name with the first words of its text."""
    text = texts.get(name, "")
    short = textwrap.shorten(text, TEXT_WIDTH, placeholder="...")
    return f"{name} ({short})" if text else name


TEXT_WIDTH = 40
"""Characters of a text that are printed."""


def parser() -> Parser:
    from research.files.vector_files import FORMATS

    parser = Parser(__doc__, overrides=False)
    parser.add_path("--workdir", default="", models=True, help="run, or hf:DIR")
    parser.add_path("--from", dest="source", default="", help="file of vectors")
    parser.add_path("--to", default="", help="file to write")
    parser.add_path("--texts", default="", help="file of name<TAB>text")
    parser.add_path("--before", default="", models=True, help="run, or hf:DIR")
    parser.add_argument("--format", default="", choices=("", *FORMATS))
    parser.add_argument("--nearest", default="", help="words, e.g. river,king")
    parser.add_path("--analogies", default="", help="file with lines: a b c d")
    parser.add_argument("--similarity", default="", help="files: word word number")
    parser.add_argument("--limit", type=whole(0), default=0, help="words; 0: all")
    return parser


if __name__ == "__main__":
    main(run, parser())
