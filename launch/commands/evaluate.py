"""Scores a checkpoint: `palimpsest evaluate --workdir=D [--config.key=value]`.

Evaluates the checkpoint of the run in D that opens it (the newest, or the best one by
train.best_metric), or that of --step=N, on the run's evaluation split, on another one
(--config.data.eval_split=test), or on other files (--config.data.valid=FILES, or the
name of a data set). All other keys of the text are those of the run's config.

Writes D/evaluations/NAME/metrics.json and, if the objective makes predictions (a label,
tags, an answer), predictions.jsonl: for each example a line with its id, prediction,
gold answer, score, texts and probabilities (research/evaluation/prediction_files.py),
as training writes at its end. NAME is the split, the step, a hash of the data, and a
hash of other keys that differ from the run's. Metrics of predictions are printed with
the margin of a 95 % interval over draws of the examples, for this network
(launch.report has intervals over seeds). For classes, sets of labels and tags it prints
precision, recall, F1 and counts of each label (for entities: of each type), and for
classes the confusions; metrics.json has them, too.
"""

import argparse
import sys

from etils import epath

from launch.cli import DONE, Parser, main, whole
from launch.config import changes_suffix, run_config


def run(args: argparse.Namespace) -> int:
    workdir = epath.Path(args.workdir)
    config = run_config(workdir, args.overrides)
    # After the config: a wrong key is reported without waiting for imports.
    from research.distributed import sharding
    from research.evaluation import label_report
    from research.evaluation.evaluate import NOTHING_SCORED, evaluate
    from research.evaluation.learning import learning_warnings
    from research.evaluation.prediction_files import write_predictions
    from research.files.json_files import write_json
    from research.metrics import notes_lines, ranges, ranges_line
    from research.program.restored import run_params
    from research.program.setup import (
        build_program,
        make_eval_zeros,
        use_compilation_cache,
    )
    from research.record.workdir import check_same_constants

    use_compilation_cache(config.data.cache_dir)
    program = build_program(config)
    vocabulary = program.data.vocabulary_hash
    params, step, facts = run_params(
        program, workdir, args.step, seed=config.seed, vocabulary=vocabulary
    )
    check_same_constants(workdir, facts, program.constants.origins)
    with sharding.context(program.mesh):
        scores = evaluate(program, params, make_eval_zeros(program)())
    if program.data.evaluation_note:
        print(program.data.evaluation_note, file=sys.stderr)
    split = config.data.eval_split
    if "loss" not in scores.metrics:
        print(NOTHING_SCORED.format(split), file=sys.stderr)
    name = f"{split}-{step}-{program.data.eval.fingerprint[:8]}"
    name += changes_suffix(workdir, config)
    folder = workdir / "evaluations" / name
    facts = {"config": config.values, "data": program.data.eval.fingerprint}
    found = {"metrics": scores.metrics, "margins": dict(scores.margins)}
    for metric, value in scores.metrics.items():
        margin = scores.margins.get(metric)
        over_items = "" if margin is None else f" ± {margin:.2g}"
        print(f"{split}/{metric} {value:.6g}{over_items}", flush=True)
    facts["ranges"] = ranges(scores.metrics, program.objective.predicts)
    facts["notes"] = dict(scores.notes)
    for line in [ranges_line(facts["ranges"]), *notes_lines(scores.notes)]:
        if line:
            print(line, file=sys.stderr)
    scored = [item for item in scores.items if item.gold is not None]
    kind, labels = program.objective.predicts, program.data.vocab.labels
    rows = label_report.label_scores(scored, kind, labels) if scored else []
    confused = label_report.confusion(scored, kind)
    for line in label_report.report_lines(rows, confused):
        print(line, flush=True)
    if rows:
        facts |= label_report.as_json(rows, confused)
    named = {f"{split}/{name}": value for name, value in scores.metrics.items()}
    entropy = program.data.token_entropy
    for line in learning_warnings(named, program.objective, split, entropy):
        print(f"warning: {line}", file=sys.stderr)
    write_json(folder / "metrics.json", found | facts)
    if scores.items:
        write_predictions(folder / "predictions.jsonl", scores.items)
    print(folder)
    return DONE


def parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_path("--workdir", required=True, help="folder of the run")
    parser.add_argument("--step", type=whole(0), default=0, help="of the checkpoint")
    return parser


if __name__ == "__main__":
    main(run, parser())
