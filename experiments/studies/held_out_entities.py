"""Splits a graph by entities: training has triples without those that are held out.

    python -m experiments.studies.held_out_entities \\
        --graph=train.triples,valid.triples,test.triples --to=split --fraction=0.08

writes split/train.triples, those of the first file without held-out entities;
split/unseen.triples, those of all files with one held-out end whose other end training
has, `--limit` at most; and split/seen.triples, as many of the other files whose ends
training has. `kepler_links` ranks the last two, and --known names the files of --graph
behind split/train.triples, so that all true triples are left out. Which entities are
held out depends on their names alone.
"""

import argparse
import hashlib
from pathlib import Path

from launch import cli


def is_held_out(entity: str, fraction: float) -> bool:
    """True for this fraction of the entities, chosen by a hash of the name."""
    digest = hashlib.blake2b(entity.encode(), digest_size=8).digest()
    return int.from_bytes(digest) < fraction * 2**64


def split(files: list[list], fraction: float, limit: int) -> dict[str, list]:
    """Name -> triples (head, relation, tail) of the files of a graph."""
    first, *others = files
    train = [
        triple
        for triple in first
        if not any(is_held_out(end, fraction) for end in triple[::2])
    ]
    trained = {end for triple in train for end in triple[::2]}
    unseen = [
        triple
        for triple in dict.fromkeys(tuple(t) for file in files for t in file)
        if sum(end in trained for end in triple[::2]) == 1
        if sum(is_held_out(end, fraction) for end in triple[::2]) == 1
    ]
    seen = [t for other in others for t in other if {t[0], t[2]} <= trained]
    return {
        "train": train,
        "unseen": _some(unseen, limit),
        "seen": _some(seen, limit),
    }


def _some(triples: list, limit: int) -> list:
    """`limit` triples at most, in equal distances."""
    return triples[:: max(1, -(-len(triples) // limit))]


def run(args: argparse.Namespace) -> None:
    from research.data.read.lexicon import read_triples
    from research.files.output_files import write_output

    files = [read_triples(Path(name), "--graph") for name in args.graph.split(",")]
    for name, triples in split(files, args.fraction, args.limit).items():
        lines = "".join("\t".join(triple) + "\n" for triple in triples)
        path = f"{args.to}/{name}.triples"
        write_output(path, lines.encode(), "--to")
        print(f"{path}: {len(triples):,} triples")


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_argument("--graph", required=True, help="files, training's first")
    parser.add_path("--to", required=True, help="folder that is written")
    parser.add_argument("--fraction", type=float, default=0.08, help="of entities")
    parser.add_argument("--limit", type=cli.whole(1), default=500, help="triples")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
