"""Fills in masks: `palimpsest fill --workdir=R --texts=F [--to=G.jsonl]`.

R is a run of a masked model, whose newest or best checkpoint is read, or hf:DIR, a
model in Hugging Face's layout. F has a text on each line, or is a .jsonl whose lines
have a `text`; a mask is written as [MASK] or <mask>. Writes for each text a JSON line
with `text` and `masks`: of each mask the --top_k most probable tokens, best first, each
with its `text`, `token` and `probability`, each predicted on its own. With
--method=confidence (or another sampler of masks of palimpsest generate) the line also
has `filled`: the text with all masks written, each given those written before it. A
text without a mask, or one that is too long, has `error` instead.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from launch import cli


def run(args: argparse.Namespace) -> None:
    from research.contract.errors import UserError
    from research.data.read.files import read_texts

    if args.top_k < 1:
        raise UserError(f"--top_k is at least 1, not {args.top_k}")
    texts = read_texts(Path(args.texts), "--texts")

    from research.files.output_files import check_output, write_output
    from research.generation.samplers import make_sampler
    from research.use.inference.open_run import open_run

    if args.to:
        check_output(args.to, "--to", {"--texts": args.texts})
    try:
        make_sampler(method=args.method or "confidence")
    except ValueError as error:
        raise UserError(f"--method: {error}") from error
    model = open_run(args.workdir)
    filled = model.fill_each(texts, args.top_k)
    cli.print_unanswered("text", filled)
    written = {}
    if args.method:
        numbers = [n for n, masks in enumerate(filled) if isinstance(masks, list)]
        masked = [texts[number] for number in numbers]
        found = model.generate(masked, method=args.method)
        written = {n: first.text for n, (first, *_) in zip(numbers, found, strict=True)}
    lines = []
    for number, (text, masks) in enumerate(zip(texts, filled, strict=True)):
        line: dict[str, Any] = {"text": text}
        if isinstance(masks, UserError):
            line["error"] = str(masks)
        else:
            line["masks"] = [[token._asdict() for token in mask] for mask in masks]
        if number in written:
            line["filled"] = written[number]
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    if not args.to:
        print("".join(lines), end="")
        return
    write_output(args.to, "".join(lines), "--to")
    print(f"{args.to}: {len(lines)} texts", file=sys.stderr)


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path(
        "--workdir", required=True, models=True, help="folder of the run, or hf:DIR"
    )
    parser.add_path("--texts", required=True, help="file, a text on each line")
    parser.add_path("--to", default="", help=".jsonl that is written; else printed")
    parser.add_argument(
        "--top_k", type=cli.whole(1), default=5, help="tokens of each mask"
    )
    help = "a sampler of masks (palimpsest generate), which writes them together"
    parser.add_argument("--method", default="", help=help)
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
