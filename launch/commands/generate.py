r"""Writes text: `palimpsest generate --workdir=R "The old river"`.

R is a run, whose newest or best checkpoint (or that of --step=N) is read, or hf:DIR, a
model in Hugging Face's layout. Causal models continue a prompt; for an encoder-decoder
it is the encoder's text, for a prefix LM of pairs the source. A decoder of masked spans
writes the masked tokens of a prompt, or a whole text if it has no masks. Of an
objective of several parts one writes: --method=PART.beam, or --method=beam if only one
can. Masked models fill in the masks of a prompt, or masks appended to a prompt without
any, with a --method that writes masks.

Prompts are the texts after the flags, or the lines of --texts=F (or the `text` of each
line of a .jsonl), or of standard input. <extra_id_0>, ... are sentinels, [MASK] or
<mask> is the mask.

Flags that are not given default to generation_config.json of hf:DIR. --step and
--config.KEY are only for runs.

Prints the best new text of each prompt on one line (line ends in it as \n), or writes
to --to=G.jsonl one JSON line per prompt with `prompt` and `texts`, each with `text`,
`log_prob` (of its tokens and its end), `score` and whether it `ended`. A prompt that is
too long is truncated to its end. One that cannot be continued has an empty line, or
`error` instead of `texts`.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from launch import cli, given_texts
from research.contract.errors import UserError
from research.generation import samplers


def run(args: argparse.Namespace) -> None:
    if args.method and not args.workdir.startswith("hf:"):
        _sampler(args)  # rejects wrong options before anything is opened
    prompts = _prompts(args)

    from launch.run_summary import print_writing_note
    from research.files.output_files import check_output, write_output
    from research.generation.text import make_writer

    if args.to:
        check_output(args.to, "--to", {"--texts": args.file})
    run, writing = _open(args)
    sampler = _sampler(args, writing)
    written = make_writer(run, sampler, batch=args.batch)(prompts)
    cli.print_unanswered("prompt", written)
    advice = ""
    if sampler.likeliest:
        method = samplers.search({}, draws=True)["method"]
        method = f"{sampler.part}.{method}" if sampler.part else method
        advice = f", and greedily it repeats itself; try --method={method}"
    print_writing_note(args.workdir, run.objective, advice)
    if not args.to:
        for texts in written:
            text = "" if isinstance(texts, UserError) else texts[0].text
            print(text.replace("\n", "\\n"))
        return
    lines = []
    for prompt, texts in zip(prompts, written, strict=True):
        line: dict[str, Any] = {"prompt": prompt}
        if isinstance(texts, UserError):
            line["error"] = str(texts)
        else:
            line["texts"] = [text._asdict() for text in texts]
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    write_output(args.to, "".join(lines), "--to")
    print(f"{args.to}: {len(lines)} prompts", file=sys.stderr)


def _sampler(
    args: argparse.Namespace, writing: Mapping[str, Any] = MappingProxyType({})
) -> samplers.Sampler:
    """The sampler of the given flags, with the model's values for others."""
    given = {name: getattr(args, name) for name in ("method", *_flags())}
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return samplers.make_sampler(writing, **given)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"--{error}") from error


def _flags() -> dict[str, dict[str, dataclasses.Field]]:
    """Option that is a flag -> sampler that has it -> its field there."""
    return {
        name: fields
        for name, fields in samplers.options().items()
        if all("help" in field.metadata for field in fields.values())
    }


def _prompts(args: argparse.Namespace) -> list[str]:
    """The prompts after the flags, in a file or on standard input."""
    if args.prompts or args.file or sys.stdin.isatty():
        return given_texts.texts_of(args, "prompt")
    from research.data.read.files import read_lines

    if not (lines := read_lines(sys.stdin.buffer, "standard input")):
        raise UserError("standard input has no prompts")
    return lines


def _open(args: argparse.Namespace) -> tuple[Any, Mapping[str, Any]]:
    """The run on its mesh (or hf: model on one device), and its generation options."""
    from research.generation.generate import find_writer, own_method

    if args.workdir.startswith("hf:"):
        given = ["--step"] * bool(args.step)
        given += [f"--config.{key}" for key in args.overrides]
        if given:
            raise UserError(
                f"{', '.join(given)}: {args.workdir} is a model in Hugging Face's "
                "layout, with one checkpoint and no config of a run; leave it out"
            )
        from research.use.inference.open_run import open_run

        model = open_run(args.workdir)
        model.check_readout()
        own = {"method": own_method(model.run.objective)}
        return model.run, {**own, **model.writing}
    from etils import epath

    from launch.config import run_config
    from research.program.restored import restore_run

    workdir = epath.Path(args.workdir)
    config = run_config(workdir, args.overrides)
    own = {"method": own_method(config.objective)}
    find_writer(config.objective, _sampler(args, own))  # before parameters are read
    return restore_run(config, workdir, args.step), own


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__)
    given_texts.add_workdir(parser)
    parser.add_argument(
        "--step", type=cli.whole(0), default=0, help="of the checkpoint"
    )
    given_texts.add_texts(parser, "prompt")
    parser.add_path("--to", default="", help="output .jsonl; else printed")
    parser.add_argument(
        "--batch", type=cli.whole(1), default=32, help="prompts at once"
    )
    methods = samplers.FOLDER.names()
    lines = [f"{name}, {line}" for name, line in samplers.FOLDER.lines().items()]
    lines.append("of several parts PART.METHOD (greedy, or else the first that can)")
    text = "; ".join(lines)
    parser.add_argument("--method", help=text)
    for name, fields in _flags().items():
        words: dict[str, list[str]] = {}
        for method, field in fields.items():
            default = f" ({field.default})" if field.default != "" else ""
            words.setdefault(field.metadata["help"] + default, []).append(method)
        text = "; ".join(
            line if readers == methods else f"of {', '.join(readers)}: {line}"
            for line, readers in words.items()
        )
        parser.add_argument(f"--{name}", type=type(field.default), help=text)
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
