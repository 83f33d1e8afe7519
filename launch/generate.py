"""Writes text: `python -m launch.generate --workdir=R --prompt=TEXT`.

R is a run, whose newest or best checkpoint (or that of --step=N) is read, or hf:DIR, a
model in Hugging Face's layout. Causal models (lm, fim, plm) continue a prompt; for an
encoder-decoder (dae, bart) it is the encoder's text, for unilm the source. The decoder
of mass writes the masked tokens of a prompt, or a whole text if it has no masks. For
joint and mix a part writes: --method=PART.beam, or --method=beam if only one can.

Prompts are --prompt, or the lines of --texts=F (or the `text` of each line of a
.jsonl), or of standard input. <extra_id_0>, ... are sentinels, [MASK] or <mask> is the
mask.

Prints the best new text of each prompt, on a line of its own (a line end in it as \\n),
or writes to --to=G.jsonl a JSON line for each prompt with `prompt` and `texts`, each
with `text`, `log_prob` (of its tokens and its end), `score` and whether it `ended`.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from launch import cli
from research.errors import UserError
from research.generation.options import METHODS, Options

HELP = {
    "method": f"{', '.join(METHODS)}; of joint and mix PART.METHOD",
    "max_tokens": "new tokens of a text at most",
    "min_tokens": "new tokens before a text may end",
    "beams": "open texts of beam search",
    "length_penalty": "alpha of Wu et al. (2016) in beam search; 0: none",
    "temperature": "of samples",
    "top_k": "samples are among so many best tokens; 0: all",
    "top_p": "samples are among the fewest best tokens of so much probability",
    "repetition_penalty": "factor on logits of tokens that the text has; 1: none",
    "seed": "of samples",
}


def run(args: argparse.Namespace) -> None:
    options = _options(args)
    if args.batch < 1:
        raise UserError(f"--batch is at least 1, not {args.batch}")
    prompts = _prompts(args)

    from research.files.output_files import write_output
    from research.generation.text import make_writer

    written = make_writer(_open(args), options, batch=args.batch)(prompts)
    if not args.to:
        for texts in written:
            print(texts[0].text.replace("\n", "\\n"))
        return
    lines = []
    for prompt, texts in zip(prompts, written, strict=True):
        line = {"prompt": prompt, "texts": [text._asdict() for text in texts]}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    write_output(args.to, "".join(lines), "--to")
    print(f"{args.to}: {len(lines)} prompts", file=sys.stderr)


def _options(args: argparse.Namespace) -> Options:
    names = [field.name for field in dataclasses.fields(Options)]
    try:
        return Options(**{name: getattr(args, name) for name in names})
    except ValueError as error:
        raise UserError(f"--{error}") from error


def _prompts(args: argparse.Namespace) -> list[str]:
    """The prompts from the flags or standard input."""
    if args.prompt is not None and args.texts:
        raise UserError("--prompt and --texts exclude each other")
    if args.prompt is not None:
        return [args.prompt]
    from research.data.corpora.files import read_lines, read_texts

    if args.texts:
        return read_texts(Path(args.texts))
    return read_lines(sys.stdin.buffer, "standard input")


def _open(args: argparse.Namespace) -> Any:
    """The run, on its mesh; a model of Hugging Face on one device."""
    if args.workdir.startswith("hf:"):
        from research.inference.open_run import open_run

        return open_run(args.workdir).run
    from etils import epath

    from launch.config import run_config
    from research.run.restored import restore_run

    workdir = epath.Path(args.workdir)
    return restore_run(run_config(workdir, args.overrides), workdir, args.step)


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    parser.add_argument("--workdir", required=True, help="folder of the run, or hf:DIR")
    parser.add_argument(
        "--step", type=cli.whole(0), default=0, help="of the checkpoint"
    )
    parser.add_argument("--prompt", help="a prompt")
    parser.add_argument("--texts", default="", help="file, a prompt on each line")
    parser.add_argument("--to", default="", help=".jsonl that is written; else printed")
    parser.add_argument(
        "--batch", type=cli.whole(1), default=32, help="prompts at once"
    )
    for field in dataclasses.fields(Options):
        text = f"{HELP[field.name]} ({field.default})"
        flag, kind = f"--{field.name}", type(field.default)
        parser.add_argument(flag, type=kind, default=field.default, help=text)
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
