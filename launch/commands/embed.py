"""Writes a vector of each text: `palimpsest embed --workdir=R --texts=F --to=V`.

R is a run, whose newest or best checkpoint is read, or hf:DIR, a model in Hugging
Face's layout. F has a text on each line, or is a .jsonl whose lines have a `text`;
either may be compressed (.gz, .zst). V is a .npy, float32 [texts, width], or a .jsonl
with `text` and `vector` on each line. A blank text has a vector too, that of no tokens,
so that row n is of text n.

--pool=mean is the mean of the last layer's states, --pool=class the state of the class
token; --normalize=yes gives vectors of length 1. A text is cut behind --max-length
tokens, by default the model's. A folder of sentence-transformers says all three.
"""

import argparse
import io
import json
import sys
from pathlib import Path

from launch import cli


def run(args: argparse.Namespace) -> None:
    from etils import epath

    from research.contract.errors import UserError
    from research.data.read.files import read_texts

    to = epath.Path(args.to)
    if to.suffix not in (".npy", ".jsonl"):
        raise UserError(f"--to={to} is written as .npy or .jsonl; give such a name")
    texts = read_texts(Path(args.texts), "--texts")

    import numpy as np

    from research.files.output_files import check_output, write_output
    from research.use.inference.open_run import open_run

    check_output(args.to, "--to", {"--texts": args.texts})
    model = open_run(args.workdir, product_dtype=args.product_dtype)
    normalize = {"": None, "yes": True, "no": False}[args.normalize]
    options = {"normalize": normalize, "max_length": args.max_length}
    vectors = model.encode(texts, args.pool, **options)
    if to.suffix == ".npy":
        file = io.BytesIO()
        np.save(file, vectors)
        content = file.getvalue()
    else:
        pairs = zip(texts, vectors.tolist(), strict=True)
        lines = (json.dumps({"text": t, "vector": v}) + "\n" for t, v in pairs)
        content = "".join(lines).encode()
    write_output(args.to, content, "--to")
    width = vectors.shape[1]
    print(f"{args.to}: {len(vectors)} vectors of width {width}", file=sys.stderr)
    if blank := sum(not text.strip() for text in texts):
        print(f"blank texts among them: {blank}", file=sys.stderr)


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path(
        "--workdir", required=True, models=True, help="folder of the run, or hf:DIR"
    )
    parser.add_path("--texts", required=True, help="file, a text on each line")
    parser.add_path("--to", required=True, help=".npy or .jsonl that is written")
    parser.add_argument("--pool", default="", choices=("", "mean", "class"))
    parser.add_argument(
        "--product-dtype",
        default="",
        choices=("", "dtype", "bfloat16"),
        help="in place of the run's model.product_dtype",
    )
    parser.add_argument("--normalize", default="", choices=("", "yes", "no"))
    parser.add_argument(
        "--max-length", type=cli.whole(0), default=0, help="tokens of a text"
    )
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
