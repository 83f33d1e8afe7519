"""Exports a run to Hugging Face's layout: `palimpsest export --workdir=D --to=E`.

E gets config.json, model.safetensors, the tokenizer and a model card; AutoModelFor* and
AutoTokenizer load it by from_pretrained(E). A run of ELECTRA becomes two folders,
E/discriminator and E/generator. --all exports every checkpoint of the run to E/step_N.
--revisions exports the checkpoints of train.checkpoint_words to E/chck_10M etc., and
the one that opens the run to E/main, as BabyLM names them.

--push=ORG/NAME uploads the export to the Hugging Face Hub, with the folders of --all
and --revisions as branches; without --to nothing is kept on this machine.
"""

import argparse
import contextlib
import re
import sys
import tempfile
from pathlib import Path

from launch import cli
from research.contract.errors import UserError

LANGUAGE = re.compile(r"[a-z]{2,3}(-\w{2,8})*|multilingual")
"""An ISO 639 code, possibly with BCP 47 subtags, as in the Hub's model cards."""

LICENCE = re.compile(r"[a-z0-9][a-z0-9.+-]*")
"""The form of a name in the Hub's list of licences, which grows."""


def run(args: argparse.Namespace) -> None:
    from research.use.export import export_run
    from research.use.hub import Repository

    if not (args.to or args.push):
        raise UserError("give --to=FOLDER, --push=ORG/NAME, or both")
    if args.private and not args.push:
        raise UserError("--private needs --push; leave it out")
    if args.all and args.revisions:
        raise UserError("give either --all or --revisions")
    if args.license and not LICENCE.fullmatch(args.license):
        raise UserError(
            "--license must be a name in the Hub's list, such as apache-2.0 or mit, "
            f"got {args.license!r}"
        )
    languages = [code for code in args.language.split(",") if code]
    for code in languages:
        if not LANGUAGE.fullmatch(code):
            raise UserError(f"--language must be codes such as en,de, got {code!r}")
    # Before the export, to report a wrong name or token at once.
    repository = Repository(args.push, private=args.private) if args.push else None
    with contextlib.ExitStack() as stack:
        to = args.to or stack.enter_context(tempfile.TemporaryDirectory())
        for line in export_run(
            args.workdir,
            to,
            all_steps=args.all,
            revisions=args.revisions,
            licence=args.license,
            languages=languages,
        ):
            print(line)
        if not languages:
            print(
                "the model card names no language; --language=en says one",
                file=sys.stderr,
            )
        if repository:
            has_branches = args.all or args.revisions
            names = [path.name for path in Path(to).iterdir()] if has_branches else []
            for line in repository.upload(Path(to), sorted(names, key=_by_number)):
                print(line)


def _by_number(name: str) -> tuple[int, str]:
    """Sorts step_9 before step_10."""
    return len(name), name


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path("--workdir", required=True, help="folder of the run")
    parser.add_path("--to", default="", help="a new folder")
    parser.add_argument("--push", default="", help="ORG/NAME on the Hub")
    help = "make a repository that --push creates private"
    parser.add_argument("--private", action="store_true", help=help)
    parser.add_argument("--all", action="store_true", help="every checkpoint")
    help = "checkpoints by words seen, under BabyLM's names"
    parser.add_argument("--revisions", action="store_true", help=help)
    help = "the model's licence in the card, e.g. apache-2.0"
    parser.add_argument("--license", default="", help=help)
    help = "codes of the text's languages in the card, e.g. en,de"
    parser.add_argument("--language", default="", help=help)
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
