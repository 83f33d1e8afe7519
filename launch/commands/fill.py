"""Fills in masks: `palimpsest fill --workdir=R "The old [MASK] is a stone."`.

R is a run of a masked model, whose newest or best checkpoint is read, or hf:DIR, a
model in Hugging Face's layout. A mask is written as [MASK] or <mask>. For texts after
the flags, the --top_k most probable tokens of each mask are printed, best first.

--texts=F reads one text per line, or a .jsonl whose lines have a `text`. It writes to
--to=G.jsonl, or else prints, one JSON line per text with `text` and `masks`: for each
mask the --top_k most probable tokens with `text`, `token` and `probability`. Each mask
is predicted independently. With --method=confidence (or another sampler of masks of
palimpsest generate) the line also has `filled`: the text with all masks filled in, each
given those filled before it. A text without a mask, or one that is too long, has
`error` instead.
"""

import argparse
import json
import sys
from typing import Any

from launch import cli, given_texts


def run(args: argparse.Namespace) -> None:
    from research.contract.errors import UserError

    texts = given_texts.texts_of(args)

    from launch.run_summary import print_writing_note
    from research.files.output_files import check_output, write_output
    from research.generation.samplers import make_sampler
    from research.use.inference.open_run import open_run

    if args.to:
        check_output(args.to, "--to", {"--texts": args.file})
    try:
        make_sampler(method=args.method)
    except ValueError as error:
        raise UserError(f"--method: {error}") from error
    model = open_run(args.workdir)
    filled = model.fill_each(texts, args.top_k)
    cli.print_unanswered("text", filled)
    print_writing_note(args.workdir, model.run.objective)
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
    if args.texts and not args.to:
        for number, masks in enumerate(filled):
            _print_table(masks, written.get(number, ""))
        return
    if not args.to:
        print("".join(lines), end="")
        return
    write_output(args.to, "".join(lines), "--to")
    print(f"{args.to}: {len(lines)} texts", file=sys.stderr)


def _print_table(masks: Any, written: str) -> None:
    """Prints the tokens of each mask of a text, best first, and the filled text."""
    if not isinstance(masks, list):
        print(f"error: {masks}")
        return
    for mask in masks:
        for token in mask:
            text = token.text.replace("\n", "\\n")
            print(f"{token.probability:8.4f}  {text}")
        print()
    if written:
        print(written.replace("\n", "\\n"))


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    given_texts.add_workdir(parser)
    given_texts.add_texts(parser)
    parser.add_path("--to", default="", help="output .jsonl; else printed")
    parser.add_argument("--top_k", type=cli.whole(1), default=5, help="tokens per mask")
    help = "sampler of masks (see palimpsest generate) that fills them jointly"
    parser.add_argument("--method", default="", help=help)
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
