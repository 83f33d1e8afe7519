"""Scores texts: `python -m launch.score --workdir=D --task=blimp --data=FILES`.

The score of a text is minus the loss of the run's own objective: log p(text) of lm and
plm, a pseudo-log-likelihood of mlm (each token, or each and the later ones of its word,
hidden in turn) and of dae and bart (each word hidden, and written by the decoder), and
of electra the sum of log P(original), minus its detector's energy.

Prints a table with 95 % intervals, and writes it to table.json and the scores of each
text to scores.jsonl, in D/evaluations/NAME. NAME is the task, the method, the step and
a hash of the files.
"""

import argparse
import json
from collections.abc import Sequence
from typing import Any

from etils import epath

from launch.cli import DONE, Parser, main
from launch.config import run_config
from research.errors import unknown


def run(args: argparse.Namespace) -> int:
    from research.evaluation.score_tasks import LAST_WORD, TASKS, read_items

    if args.task not in TASKS:
        raise unknown("--task", args.task, TASKS)
    workdir, task = epath.Path(args.workdir), TASKS[args.task]
    config = run_config(workdir, args.overrides)
    fields = tuple(filter(None, args.fields.split(",")))
    items, files_hash = read_items(args.task, args.data, fields, args.label)
    # After the flags: a wrong one is reported without waiting for imports.
    from research.evaluation.score_tables import table_lines, task_table
    from research.evaluation.sentence_scores import Scorer, check_method
    from research.files.json_files import replace_text, write_json
    from research.objectives import config_objective
    from research.run.restored import restore_run
    from research.run.setup import use_compilation_cache

    method = check_method(config_objective(config), args.method)
    use_compilation_cache(config.data.cache_dir)
    restored = restore_run(config, workdir, args.step)
    scorer = Scorer(restored, method, best=task.judged == LAST_WORD)
    scores = _score(scorer, items)
    table = task_table(task.judged, items, scores, scorer.meaning)
    name = f"{args.task}-{method}-{restored.step}-{files_hash[:8]}"
    folder = workdir / "evaluations" / name
    facts = {"task": args.task, "method": method, "score": scorer.meaning}
    facts |= {"files": args.data, "hash": files_hash, "step": restored.step}
    cells = {
        row: {column: cell._asdict() for column, cell in columns.items()}
        for row, columns in table.items()
    }
    write_json(folder / "table.json", facts | {"table": cells})
    lines = (
        json.dumps(_line(item, own), ensure_ascii=False)
        for item, own in zip(items, scores, strict=True)
    )
    replace_text(folder / "scores.jsonl", "\n".join(lines) + "\n")
    print(f"{args.task} by {scorer.meaning} ({method})", *table_lines(table), sep="\n")
    if cut := sum(score.num_windows > 1 for own in scores for score in own):
        print(f"{cut} texts are longer than data.length and were read in windows")
    print(folder)
    return DONE


def _score(scorer: Any, items: Sequence[Any]) -> list[list[Any]]:
    """The scores of the texts of each item."""
    flat = scorer(
        [text for item in items for text in item.texts],
        [context for item in items for context in item.contexts],
    )
    scores = iter(flat)
    return [[next(scores) for _ in item.texts] for item in items]


def _line(item: Any, scores: Sequence[Any]) -> dict[str, Any]:
    """What scores.jsonl says of an item."""
    return {
        "id": item.id,
        "group": item.group,
        "gold": item.gold,
        "scores": [score._asdict() for score in scores],
    }


def parser() -> Parser:
    from research.evaluation.score_tasks import TASKS

    tasks = (f"{name}: {task.what}" for name, task in TASKS.items())
    parser = Parser(__doc__)
    parser.add_argument("--workdir", required=True, help="folder of the run")
    parser.add_argument("--task", required=True, help="; ".join(tasks))
    parser.add_argument("--data", required=True, help="a file, folder or glob")
    parser.add_argument("--fields", default="", help="columns in place of the task's")
    parser.add_argument("--label", default="", help="the column of the label, likewise")
    parser.add_argument("--method", default="", help="of the objective's; its first")
    parser.add_argument("--step", type=int, default=0, help="of the checkpoint")
    return parser


if __name__ == "__main__":
    main(run, parser())
