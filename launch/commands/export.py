"""Exports a run to Hugging Face's layout: `palimpsest export --workdir=D --to=E`.

E gets config.json, model.safetensors, the tokenizer and a model card; AutoModelFor* and
AutoTokenizer load it by from_pretrained(E). A run of ELECTRA becomes two folders,
E/discriminator and E/generator. With --all every checkpoint of the run is exported, to
E/step_N; with --revisions those of train.checkpoint_words, to E/chck_10M and the like,
and the one that opens the run to E/main, as BabyLM names them.
"""

import argparse

from launch import cli


def run(args: argparse.Namespace) -> None:
    from research.use.export import export_run

    options = {"all_steps": args.all, "revisions": args.revisions}
    options |= {"licence": args.license}
    for line in export_run(args.workdir, args.to, **options):
        print(line)


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    parser.add_path("--workdir", required=True, help="folder of the run")
    parser.add_path("--to", required=True, help="a new folder")
    parser.add_argument("--all", action="store_true", help="every checkpoint")
    help = "checkpoints by words seen, under BabyLM's names"
    parser.add_argument("--revisions", action="store_true", help=help)
    help = "the model's licence, as in apache-2.0, which the card says"
    parser.add_argument("--license", default="", help=help)
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
