"""Evaluates by BabyLM's tasks: `palimpsest babylm --workdir=D --data=E --to=R`.

All checkpoints of the run in D (`train.checkpoint_words`) are evaluated on the fast set
of the evaluation data E, and the last one on the full set. D may also be a sweep's
folder (all its finished runs), or hf:DIR, written by `palimpsest export --revisions`. E
has the challenge's folders fast_eval and full_eval. The command writes
R/MODEL/REVISION/zero_shot/BACKEND/...,
R/MODEL/all_full_preds_and_fast_scores_BACKEND.json, which is submitted, and
palimpsest_RULES_BACKEND.json with the printed 95 % intervals. If it is stopped, the
same command continues.

Scores are computed as by the backends of the challenge's pipeline (causal, mlm, mntp,
enc_dec_mask, enc_dec_prefix). --backend=own uses the objective's own scores, also for
objectives that the pipeline does not know; docs/howto/babylm.md defines both. The
default backend matches how the objective was trained. --glue also fine-tunes on GLUE,
which takes longer than everything else.
"""

import argparse
import functools
from pathlib import Path

from launch.cli import DONE, Parser, main, whole
from research.contract.errors import UserError


def run(args: argparse.Namespace) -> int:
    from launch import glue
    from research.evaluation.babylm.rules import find_rules
    from research.evaluation.babylm.tasks import owners
    from research.program.setup import use_compilation_cache
    from research.use.babylm.checkpoints import find_checkpoints
    from research.use.babylm.submission import Submission

    rules = find_rules(args.rules)
    use_compilation_cache(args.cache)
    names = tuple(filter(None, args.tasks.split(",")))
    finetune = functools.partial(glue.finetune, seeds=args.seeds, cache_dir=args.cache)
    for source in _sources(args.workdir):
        submission = Submission(
            find_checkpoints(source),
            Path(args.data),
            Path(args.to),
            rules,
            backend=args.backend,
            method=args.method,
            tasks=names,
            finetune=finetune if args.glue or owners().keys() & {*names} else None,
            report=functools.partial(print, flush=True),
        )
        submission.run(only_main=args.checkpoints == "main")
    return DONE


def _sources(workdir: str) -> list[str]:
    """The model, or the finished runs of a sweep that can score texts."""
    from launch.sweeps.sweep_plan import finished_trials

    if workdir.startswith("hf:") or (trials := finished_trials(workdir)) is None:
        return [workdir]
    if not (sources := [str(t.folder) for t in trials if t.gives_scores]):
        raise UserError(f"{workdir} has no finished run whose objective scores texts")
    return sources


def parser() -> Parser:
    parser = Parser(__doc__, overrides=False)
    parser.add_path("--workdir", required=True, models=True, help="a run, or hf:DIR")
    parser.add_path("--data", required=True, help="folder of the evaluation data")
    parser.add_path("--to", required=True, help="folder of results")
    parser.add_argument(
        "--rules", default="babylm_2026", choices=("babylm_2025", "babylm_2026")
    )
    parser.add_argument("--backend", default="", help="default: by the objective")
    parser.add_argument("--method", default="", help="method of --backend=own")
    help = "comma-separated, e.g. blimp,reading,rte; default: all that have data"
    parser.add_argument("--tasks", default="", help=help)
    legal = ("all", "main")
    parser.add_argument("--checkpoints", default="all", choices=legal, help="or main")
    help = "also fine-tune on (Super)GLUE"
    parser.add_argument("--glue", action="store_true", help=help)
    help = "fine-tuning runs per GLUE task; the first is submitted"
    parser.add_argument("--seeds", type=whole(1), default=1, help=help)
    help = 'folder of compiled programs; "": ~/.cache/palimpsest'
    parser.add_path("--cache", default="", help=help)
    return parser


if __name__ == "__main__":
    main(run, parser())
