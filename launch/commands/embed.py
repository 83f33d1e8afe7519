"""Embeds texts: `palimpsest embed --workdir=R "a text" "another"`.

R is a run, whose newest or best checkpoint is read, or hf:DIR, a model in Hugging
Face's layout. --texts=F reads the texts from a file: one per line, or a .jsonl whose
lines have a `text`; either may be compressed (.gz, .zst). --to=V writes a .npy, float32
[texts, width], or a .jsonl with `text` and `vector` on each line; without --to these
JSON lines are printed. A blank text also has a vector, that of no tokens, so that row n
belongs to text n.

--pictures=P embeds pictures with a run of clip: P is one picture, a .txt with one path
per line, relative to its folder, or a collection (all its PNG and JPEG files, in the
order of their paths). The JSON lines then have `file` and `vector`. Vectors of texts
from such a run are those that are compared with pictures.

--pool=mean is the mean of the last layer's states, --pool=class the state of the class
token; --normalize=yes gives vectors of length 1. A text is truncated to --max-length
tokens, by default the model's. A folder of sentence-transformers sets all three.
"""

import argparse
import io
import json
import sys
from pathlib import Path

from launch import cli, given_texts


def run(args: argparse.Namespace) -> None:
    from etils import epath

    from research.contract.errors import UserError

    to = epath.Path(args.to)
    if args.to and to.suffix not in (".npy", ".jsonl"):
        raise UserError(f"--to={to} must end in .npy or .jsonl")
    if args.pictures and (unread := args.texts or args.file or args.pool):
        raise UserError(
            f"--pictures cannot be combined with {unread!r:.40}; leave one out"
        )
    texts = [] if args.pictures else given_texts.texts_of(args)

    import numpy as np

    from research.data.read.pictures import list_pictures
    from research.files.output_files import check_output, write_output
    from research.use.inference.open_run import open_run

    if args.to:
        check_output(args.to, "--to", {"--texts": args.file})
    model = open_run(args.workdir, product_dtype=args.product_dtype)
    normalize = {"": None, "yes": True, "no": False}[args.normalize]
    key = "text"
    if args.pictures:
        key = "file"
        folder, texts = list_pictures(Path(args.pictures))
        vectors = model.encode_pictures(folder, texts, normalize=normalize)
    else:
        options = {"normalize": normalize, "max_length": args.max_length}
        vectors = model.encode(texts, args.pool, **options)
    if to.suffix == ".npy":
        file = io.BytesIO()
        np.save(file, vectors)
        content = file.getvalue()
    else:
        pairs = zip(texts, vectors.tolist(), strict=True)
        lines = (json.dumps({key: t, "vector": v}) + "\n" for t, v in pairs)
        content = "".join(lines).encode()
    if not args.to:
        print(content.decode(), end="")
        return
    write_output(args.to, content, "--to")
    width = vectors.shape[1]
    of_pictures = " of pictures" if args.pictures else ""
    line = f"{args.to}: {len(vectors)} vectors of width {width}{of_pictures}"
    print(line, file=sys.stderr)
    if blank := sum(not text.strip() for text in texts):
        print(f"blank texts among them: {blank}", file=sys.stderr)


def parser() -> cli.Parser:
    from research.data.read.picture_sources import kinds

    parser = cli.Parser(__doc__, overrides=False)
    given_texts.add_workdir(parser)
    given_texts.add_texts(parser)
    parser.add_path("--pictures", default="", help=f"picture, .txt or {kinds()}")
    parser.add_path("--to", default="", help=".npy or .jsonl; else JSON is printed")
    parser.add_argument("--pool", default="", choices=("", "mean", "class"))
    parser.add_argument(
        "--product-dtype",
        default="",
        choices=("", "dtype", "bfloat16"),
        help="instead of the run's model.product_dtype",
    )
    parser.add_argument("--normalize", default="", choices=("", "yes", "no"))
    parser.add_argument(
        "--max-length", type=cli.whole(0), default=0, help="tokens per text, at most"
    )
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
