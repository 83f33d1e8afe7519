"""Scores a checkpoint: `python -m launch.evaluate --workdir=D [--config.key=value]`.

Evaluates the newest checkpoint of the run in D (or that of --step=N) on the run's
evaluation split, or on another: --config.data.eval_split=test, or files of their own,
--config.data.valid=FILES. The text is that of the run's config in all else.

Writes D/evaluations/NAME/metrics.json and, where the objective predicts something (a
label, tags, an answer), predictions.jsonl: a line for each example, with its id,
prediction, gold answer and score. NAME is the split, the step and a hash of the data.
"""

import argparse
import json

from etils import epath

from launch.cli import DONE, Parser, main
from launch.config import run_config


def run(args: argparse.Namespace) -> int:
    workdir = epath.Path(args.workdir)
    config = run_config(workdir, args.overrides)
    # After the config: a wrong key is reported without waiting for imports.
    from research.checkpoints.checkpoint import FOLDER
    from research.checkpoints.partial_restore import newest_checkpoint, restore_params
    from research.distributed import sharding
    from research.evaluation.evaluate import evaluate
    from research.run.json_files import replace_text, write_json
    from research.run.setup import (
        build_program,
        initial_state,
        make_eval_zeros,
        use_compilation_cache,
    )

    use_compilation_cache(config.data.cache_dir)
    program = build_program(config)
    source = workdir / FOLDER / str(args.step) if args.step else workdir
    source = newest_checkpoint(str(source))
    with sharding.context(program.mesh):
        state = initial_state(program, config.seed)
        params, missing = restore_params(
            str(source), "", state.params, vocabulary=program.data.vocabulary_hash
        )
        _refuse_missing(missing, workdir)
        scores = evaluate(program, params, make_eval_zeros(program)())
    split = config.data.eval_split
    name = f"{split}-{source.name}-{program.data.eval.fingerprint[:8]}"
    folder = workdir / "evaluations" / name
    facts = {"config": config.to_dict(), "data": program.data.eval.fingerprint}
    write_json(folder / "metrics.json", {"metrics": scores.metrics, **facts})
    if scores.items:
        lines = (
            json.dumps(item._asdict(), ensure_ascii=False) for item in scores.items
        )
        replace_text(folder / "predictions.jsonl", "\n".join(lines) + "\n")
    for metric, value in scores.metrics.items():
        print(f"{split}/{metric} {value:.6g}")
    print(folder)
    return DONE


def _refuse_missing(missing: list[str], workdir: epath.Path) -> None:
    from research.errors import UserError

    if missing:
        raise UserError(f"{workdir} has no parameters {', '.join(missing)} to evaluate")


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--workdir", required=True, help="folder of the run")
    parser.add_argument("--step", type=int, default=0, help="of the checkpoint")
    return parser


if __name__ == "__main__":
    main(run, parser())
