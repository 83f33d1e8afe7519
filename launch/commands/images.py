r"""Makes a store of pictures: `palimpsest images --pictures=P --captions=C --to=D`.

P has PNG or JPEG files, C is a file of captions with the columns `file` (the path in
P) and `caption`. It decodes each picture once, resizes it to --size=72 (or
--size=400x100, width x height) and writes D/pixels.npy, which is mapped and not read,
and the captions, D/train.captioned and D/valid.captioned. Then

    palimpsest train --config=experiments/clip.py --workdir=runs/clip \
        --config.data.train=D/train.captioned --config.data.valid=D/valid.captioned \
        --config.objective.images=D

--file-column=image and --caption-column=name_en,name_de name other columns; each
column, and each item of a list, is a caption. A fraction --held-out=0.1 of the pictures
is for validation; --group-column=C keeps pictures with equal values in column C in one
split, such as variants of a picture. --label-column=C is a column for tasks. JSON lines
may have `boxes`, lists of [x1, y1, x2, y2] in pixels, and `classes`, a name per box.

--features=F.npz has your own features: for each picture an array [boxes, D] under the
name of its file, which objective.regions=features reads instead of pixels.
--caption-vectors=V.npz has an array [captions, D] for each picture, in the order of its
captions: states of a frozen text tower, which objective.captions=vectors reads.

Repeating the command decodes nothing. A folder D with other pictures is rejected.
"""

import argparse
import itertools
import re
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from launch.cli import Parser, fraction, main


def run(args: argparse.Namespace) -> None:
    import numpy as np

    from research.contract.errors import UserError
    from research.data.read import pictures
    from research.data.read.picture_sources import open_source
    from research.data.store import pictures as store
    from research.files.output_files import new_folder, write_output

    if not all((args.file_column, *args.caption_column.split(","))):
        raise UserError("--file-column and --caption-column must name columns")
    columns = pictures.Columns(
        args.file_column,
        tuple(args.caption_column.split(",")),
        args.group_column,
        args.label_column,
    )
    rows = pictures.read_rows(Path(args.captions), columns)
    source = open_source(Path(args.pictures))
    parts = store.split_rows(rows, args.held_out)
    found = store.number_pictures([*parts[0], *parts[1]])
    files = [{row.file for row in part} for part in parts]
    if both := files[0] & files[1]:
        raise UserError(
            f"{min(both)} has rows of several groups, which are in both splits; a "
            "picture must have one group"
        )
    features = Path(args.features) if args.features else None
    key = store.store_key(source, found, args.size, features)
    folder, start = Path(args.to), time.monotonic()
    old = store.stored_key(folder)
    if old and old != key:
        raise UserError(
            f"--to={folder} has other pictures, or these with other boxes, features or "
            "another size; delete it, or name another folder"
        )
    if not old:
        with new_folder(folder) as unfinished:
            store.write_store(
                unfinished,
                source,
                found,
                size=args.size,
                num_train=len(files[0]),
                key=key,
                features=features,
            )
    seconds = time.monotonic() - start
    number = {file: n for n, file in enumerate(found)}
    vector: Iterator[int | None] = itertools.repeat(None)
    if args.caption_vectors:
        every = [*parts[0], *parts[1]]
        vectors = store.read_caption_vectors(Path(args.caption_vectors), every)
        np.save(folder / store.CAPTION_VECTORS, vectors)
        vector = itertools.count()
    for split, part in zip(("train", "valid"), parts, strict=True):
        lines = (
            pictures.caption_line(text, number[row.file], row.label, next(vector))
            for row in part
            for text in row.captions
        )
        write_output(folder / f"{split}.captioned", lines, "--to")
    made = "are there already" if old else f"decoded in {seconds:.1f} s"
    counts = [sum(len(row.captions) for row in part) for part in parts]
    print(
        f"{folder}: {len(found):,} pictures {made}; captions: {counts[0]:,} for "
        f"training, {counts[1]:,} for validation",
        file=sys.stderr,
    )


MAX_SIDE = 4096


def size(text: str) -> tuple[int, int]:
    """The type of a flag: WIDTHxHEIGHT, or one number for both."""
    found = re.fullmatch(r"(\d+)(?:x(\d+))?", text)
    sides = tuple(int(each or found[1]) for each in found.groups()) if found else (0,)
    if not all(1 <= side <= MAX_SIDE for side in sides):
        raise argparse.ArgumentTypeError(
            "must be a number of pixels, such as 72, or WIDTHxHEIGHT, up to "
            f"{MAX_SIDE}; got {text!r}"
        )
    return sides


def parser() -> Parser:
    from research.data.read.picture_sources import kinds
    from research.data.read.pictures import CAPTION_FILES

    parser = Parser(__doc__, overrides=False)
    parser.add_path("--pictures", required=True, help=f"{kinds()} of pictures")
    parser.add_path("--captions", required=True, help=" or ".join(CAPTION_FILES))
    parser.add_path("--to", required=True, help="output folder")
    parser.add_argument("--size", type=size, default=(72, 72), help="of pictures")
    parser.add_argument("--file-column", default="file", help="column of paths")
    parser.add_argument(
        "--caption-column", default="caption", help="columns of captions"
    )
    parser.add_argument("--group-column", default="", help="equal values: one split")
    parser.add_argument("--label-column", default="", help="column of labels")
    parser.add_path("--features", default="", help=".npz of features of boxes")
    parser.add_path("--caption-vectors", default="", help=".npz of captions' vectors")
    parser.add_argument(
        "--held-out",
        type=partial(fraction, zero=False),
        default=0.1,
        help="for validation",
    )
    return parser


if __name__ == "__main__":
    main(run, parser())
