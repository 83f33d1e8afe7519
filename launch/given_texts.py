"""The texts that a command reads: after its flags, or in a file."""

import argparse
from pathlib import Path
from typing import Any

from launch import cli
from research.contract.errors import UserError

FLAGS = {"data.test": "--data", "data.fields": "--fields", "data.label": "--label"}
"""Config key -> the flag of `add_examples` that sets it."""


def add_workdir(parser: cli.Parser) -> None:
    """Adds --workdir, a run or a model in Hugging Face's layout."""
    help = "folder of the run, or hf:DIR"
    parser.add_path("--workdir", required=True, models=True, help=help)


def add_texts(parser: cli.Parser, noun: str = "text") -> None:
    """Adds positional texts, and --texts."""
    parser.add_argument(f"{noun}s", nargs="*", metavar=noun, help=f"{noun}s, quoted")
    parser.add_path(
        "--texts", dest="file", default="", help=f"file with one {noun} per line"
    )


def texts_of(args: argparse.Namespace, noun: str = "text") -> list[str]:
    """The texts of the flags of `add_texts`.

    Raises:
      UserError: both or neither are given, or the file cannot be read.
    """
    texts: list[str] = getattr(args, f"{noun}s")
    if bool(texts) == bool(args.file):
        raise UserError(
            f'give a {noun} after the flags, as in "a {noun}", or --texts=F'
        )
    if texts:
        return texts
    from research.data.read.files import read_texts

    return read_texts(Path(args.file), "--texts")


def add_examples(parser: cli.Parser, parts: str, label: str) -> None:
    """Adds the positional parts of an example, --data with its columns, and --to."""
    parser.add_argument("parts", nargs="*", metavar="text", help=parts)
    parser.add_path("--data", default="", help="file of examples")
    parser.add_argument("--fields", default="", help="columns of --data, e.g. a,b")
    parser.add_argument("--label", default="", help=label)
    parser.add_path("--to", default="", help="output .jsonl; else printed")


def picture_rows(args: argparse.Namespace) -> tuple[list[Any], Path]:
    """The rows of the positional text or of --data, and the path of --pictures.

    Raises:
      UserError: a text has not exactly one picture, or --data cannot be read.
    """
    from research.data.read import pictures

    path = Path(args.pictures)
    if args.parts:
        if len(args.parts) > 1:
            raise UserError(
                "--pictures takes one text; give several in a table, --data=F"
            )
        folder, names = pictures.list_pictures(path)
        if len(names) > 1:
            raise UserError(f"--pictures={path} must be one picture, of one text")
        row = pictures.Row(str(path), names[0], tuple(args.parts), "", None, (), ())
        return [row], folder
    columns = picture_columns(args.fields)._replace(label=args.label)
    return pictures.read_rows(Path(args.data), columns), path


def picture_columns(fields: str) -> Any:
    """The columns that --fields names in a table of pictures and captions.

    Raises:
      UserError: there is no column of captions.
    """
    from research.data.read.pictures import Columns

    names = [name for name in fields.split(",") if name]
    if len(names) == 1:
        raise UserError(
            f"--fields={fields} must name the column of files and one or more of "
            "captions, as in file,caption"
        )
    return Columns(names[0], tuple(names[1:])) if names else Columns()


def check_examples(args: argparse.Namespace, parts: str) -> None:
    """Checks that the flags of `add_examples` name an example or a file.

    Raises:
      UserError: both or neither are given, the file does not exist, a flag is unused,
        or --to cannot be written.
    """
    if bool(args.parts) == bool(args.data):
        raise UserError(f"give {parts}, or --data=F")
    for flag, value in {"--fields": args.fields, "--label": args.label}.items():
        if args.parts and value:
            raise UserError(f"{flag}={value} needs --data; leave it out")
    if args.data and not Path(args.data).exists():
        raise UserError(f"--data={args.data}: no such file or folder")
    if args.to:
        from research.files.output_files import check_output

        check_output(args.to, "--to", {"--data": args.data})
