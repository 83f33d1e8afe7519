"""Runs lm-evaluation-harness or MTEB on a model: `palimpsest harness --workdir=R`.

R is a run, whose newest or best checkpoint is read, or hf:DIR, a model in Hugging
Face's layout. --tasks are names of the library, separated by commas; your own tasks for
lm-eval are YAML files in the folder --include_path. Log-likelihoods are computed by the
model's own objective: for a masked model pseudo-log-likelihoods (--method chooses among
those of `palimpsest score`). --library=mteb evaluates the embeddings of texts (the
mean, or --pool=class).

    palimpsest harness --workdir=runs/lm --tasks=blimp,lambada_openai --to=results.json
    palimpsest harness --workdir=hf:DIR --library=mteb --tasks=STSBenchmark --to=results

Prints each metric with its standard error, if the library has one. --to saves the
library's results: for lm-eval a JSON file, for MTEB its folder of results, as its pull
requests expect. The libraries are the extras `harness` and `mteb`; they read tasks from
the Hub, or from its cache (HF_HUB_OFFLINE=1).
"""

import argparse
import json
import sys
from typing import Any

from launch import cli, given_texts

LIBRARIES = ("lm_eval", "mteb")


def run(args: argparse.Namespace) -> None:
    import importlib.util

    from research.contract.errors import UserError, missing_package

    tasks = [name for name in args.tasks.split(",") if name]
    if not tasks:
        raise UserError("--tasks names no task; give names with commas")
    if args.library == "mteb":
        unread = {"--include_path": args.include_path, "--method": args.method}
        unread["--limit"] = args.limit
    else:
        unread = {"--pool": args.pool}
    for flag, value in unread.items():
        if value:
            raise UserError(f"{flag} is not read with --library={args.library}")
    if importlib.util.find_spec(args.library) is None:
        raise missing_package("palimpsest harness", args.library)
    from research.use.inference.open_run import open_run

    model = open_run(args.workdir)
    judge = _mteb if args.library == "mteb" else _lm_eval
    for line in judge(model, tasks, args):
        print(line)
    if args.to:
        print(args.to, file=sys.stderr)


def _lm_eval(model: Any, tasks: list[str], args: argparse.Namespace) -> list[str]:
    """Lines of metrics; writes the library's results to --to."""
    import lm_eval
    from lm_eval.tasks import TaskManager

    from research.contract.errors import unknown
    from research.evaluation.harness import language_model
    from research.files.output_files import check_output, write_output

    if args.to:
        check_output(args.to, "--to")
    manager = TaskManager(include_path=args.include_path or None)
    for task in tasks:
        if not manager.match_tasks([task]):
            raise unknown("task of lm-eval", task, manager.all_tasks)
    limit = args.limit or None
    found = lm_eval.simple_evaluate(
        model=language_model(model, args.method),
        tasks=tasks,
        task_manager=manager,
        limit=limit,
        bootstrap_iters=1000,
    )
    if args.to:
        kept = {name: found[name] for name in ("results", "versions", "n-samples")}
        write_output(args.to, json.dumps(kept, indent=1, default=str) + "\n", "--to")
    lines = []
    for task, metrics in found["results"].items():
        for key, value in metrics.items():
            name, _, _ = key.partition(",")
            if not isinstance(value, float) or name.endswith("_stderr"):
                continue
            error = metrics.get(key.replace(name, f"{name}_stderr"))
            margin = f" ± {error:.2g}" if isinstance(error, float) else ""
            lines.append(f"{task} {name} {value:.4f}{margin}")
    return lines


def _mteb(model: Any, tasks: list[str], args: argparse.Namespace) -> list[str]:
    """Lines of main scores; the library writes its files to --to."""
    import mteb

    from research.contract.errors import UserError
    from research.evaluation.harness import text_encoder

    try:
        chosen = mteb.get_tasks(tasks=tasks)
    except KeyError as error:
        raise UserError(f"mteb has no task {error}") from error
    options = {"cache": mteb.ResultCache(args.to)} if args.to else {"cache": None}
    encoder = text_encoder(model, args.pool or model.pool)
    results = mteb.evaluate(encoder, chosen, **options)
    return [
        f"{result.task_name} {result.get_score():.4f}"
        for result in results.task_results
    ]


def parser() -> cli.Parser:
    parser = cli.Parser(__doc__, overrides=False)
    given_texts.add_workdir(parser)
    parser.add_argument("--tasks", required=True, help="comma-separated names")
    parser.add_argument("--library", default="lm_eval", choices=LIBRARIES)
    parser.add_path("--include_path", default="", help="folder of lm-eval's YAML tasks")
    parser.add_argument("--method", default="", help="of scoring; default: the first")
    parser.add_argument("--pool", default="", choices=("", "mean", "class"))
    parser.add_argument(
        "--limit", type=cli.whole(0), default=0, help="lm_eval: documents per task"
    )
    parser.add_path("--to", default="", help="file or folder of results")
    return parser


if __name__ == "__main__":
    cli.main(run, parser())
