"""Scores texts: `palimpsest score --workdir=D --task=blimp --data=FILES`.

The score of a text is minus the loss of the run's objective: log p(text) of a causal or
permuted model; a pseudo-log-likelihood where tokens are masked (each in turn, or each
with the later ones of its word) or an encoder-decoder fills in words (each is masked in
turn and written by the decoder); by diffusion a lower bound of log p(text) from 128
draws of masks, with its standard error; of a discriminator the sum of log P(original),
minus its energy. An objective of several parts has the scores of each:
--method=PART.METHOD. Texts are in the first of the run's objective.languages, if any,
or in that of --config.objective.languages.

--task=retrieval ranks captions and pictures by their vectors (of two towers) or by the
probability that they match (one forward pass per pair). The table --data=T
has the columns `file` and `caption` (--fields=image,name_en,name_de names others), and
--pictures=P has the files; --data=D/valid.captioned of `palimpsest images` needs no
--pictures.

Prints a table with 95 % intervals, and writes it to D/evaluations/NAME/table.json and
the scores of each text to scores.jsonl. NAME is the task, the method, the step, a hash
of the files, and a hash of the keys that --config.KEY=VALUE changes. If D is a sweep,
it scores the finished runs that have no scores of these files and this step yet, and
skips those whose objective cannot score texts. Tables show the scores of the step that
opens a run, as --step=0 does: the best if train.best_metric is set, else the last.
"""

import argparse
import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etils import epath

from launch import given_texts
from launch.cli import DONE, FAILED, Parser, main, whole
from launch.config import changes_suffix, run_config
from research.contract.errors import UserError, unknown
from research.files.existence import exists


def run(args: argparse.Namespace) -> int:
    from research.evaluation.score_tasks import (
        PICTURE_TASKS,
        check_labels,
        chosen_items,
        read_items,
        task_lines,
    )
    from research.evaluation.sentence_scores import check_method

    if args.task not in task_lines():
        raise unknown("--task", args.task, [*task_lines()])
    workdir = epath.Path(args.workdir)
    fields = tuple(filter(None, args.fields.split(",")))
    if args.task in PICTURE_TASKS:
        _rank_pictures(workdir, args)
        return DONE
    if args.pictures:
        readers = " or ".join(PICTURE_TASKS)
        raise UserError(f"--pictures is read only by --task={readers}; leave it out")
    is_sweep = exists(workdir / "sweep.json")
    if not is_sweep:
        check_method(run_config(workdir, args.overrides).objective, args.method)
    items, files_hash = read_items(args.task, args.data, fields, args.label)
    groups = tuple(filter(None, args.groups.split(",")))
    if groups or args.limit:
        items = chosen_items(items, groups, args.limit)
    check_labels(args.task, items)
    if is_sweep:
        return _score_sweep(workdir, items, files_hash, args)
    _score_run(workdir, items, files_hash, args)
    return DONE


def _rank_pictures(workdir: epath.Path, args: argparse.Namespace) -> None:
    """Prints and writes the ranks of captions and pictures."""
    unread = [n for n in ("label", "groups", "limit", "method") if getattr(args, n)]
    if unread or args.overrides:
        name = unread[0] if unread else "config.KEY"
        raise UserError(f"--{name} is not read by --task={args.task}; leave it out")
    if exists(workdir / "sweep.json"):
        raise UserError(f"--task={args.task} scores one run; name a run in {workdir}")
    from research.data.cache import fingerprint
    from research.data.read import picture_sources, pictures
    from research.data.read.formats import by_suffix
    from research.data.read.formats.captioned import IMAGE
    from research.evaluation.retrieval_scores import (
        matrix_ranks,
        retrieval_ranks,
        retrieval_table,
    )
    from research.evaluation.score_tables import table_lines
    from research.files.json_files import write_json
    from research.files.output_files import replace_text
    from research.use.inference.open_run import open_run
    from research.use.inference.own_pictures import open_with_pictures, pictures_beside
    from research.use.inference.picture_guesses import match_values

    data = Path(args.data)
    columns = given_texts.picture_columns(args.fields)
    found = by_suffix().get(data.suffix)
    own = found is not None and IMAGE in found.arrays
    if own == bool(args.pictures):
        raise UserError(
            f"--data={data} has numbers of the run's own pictures; leave out --pictures"
            if own
            else f"--pictures=P must name {picture_sources.kinds()} of the pictures "
            "that --data names"
        )
    rows = pictures.read_captioned(data) if own else pictures.read_rows(data, columns)
    files = list(dict.fromkeys(row.file for row in rows))
    number = {file: n for n, file in enumerate(files)}
    captions = [(text, number[row.file]) for row in rows for text in row.captions]
    texts, picture = [text for text, _ in captions], [n for _, n in captions]
    with contextlib.ExitStack() as stack:
        if own:
            images = pictures_beside(data, workdir)
            model = open_run(workdir, step=args.step, images=images)
            numbers = [int(file) for file in files]
        else:
            opened = open_with_pictures(
                str(workdir), Path(args.pictures), rows, step=args.step
            )
            (model, _), numbers = stack.enter_context(opened), [*range(len(files))]
        objective = model.run.objective
        if hasattr(objective, "picture_vectors"):
            method, image = "vectors", model.encode_stored(numbers)
            ranks = retrieval_ranks(image, model.encode(texts), picture)
        elif getattr(objective, "asks_match", False):
            values = match_values(model.run, texts, numbers)
            method, ranks = "match", matrix_ranks(values, picture)
        else:
            raise UserError(
                f"--task={args.task} needs a run that has vectors of pictures, or "
                f"predicts which captions match; got one of {objective.name}"
            )
    table = retrieval_table(ranks, picture)
    hash = fingerprint([files, captions, *(row.boxes for row in rows if row.boxes)])
    name = f"{args.task}-{method}-{model.run.step}-{hash[:8]}"
    folder = workdir / "evaluations" / name
    cells = {
        row: {column: cell.to_json() for column, cell in columns.items()}
        for row, columns in table.items()
    }
    facts = {"task": args.task, "method": method, "files": args.data, "hash": hash}
    write_json(folder / "table.json", facts | {"step": model.run.step, "table": cells})
    lines = (
        json.dumps(
            {"file": files[n], "caption": text, "ranks": own}, ensure_ascii=False
        )
        for text, n, own in zip(texts, picture, ranks.tolist(), strict=True)
    )
    replace_text(folder / "scores.jsonl", "\n".join(lines) + "\n")
    print(f"{args.task}: {len(files)} pictures, {len(texts)} captions")
    print(*table_lines(table), folder, sep="\n")


def _score_sweep(
    workdir: epath.Path, items: Sequence[Any], files_hash: str, args: argparse.Namespace
) -> int:
    """Scores the finished runs of a sweep whose objective can score texts."""
    from launch.sweeps.sweep_plan import read_plan

    trials = [trial for trial in read_plan(workdir) if trial.gives_scores]
    for number, trial in enumerate(trials, start=1):
        if trial.done:
            print(f"[{number}/{len(trials)}] {trial.name}", flush=True)
            kept = args.step or trial.opened_step
            _score_run(trial.folder, items, files_hash, args, kept_step=kept)
    missing = [trial.name for trial in trials if not trial.done]
    if missing:
        print(f"{len(missing)} runs have no result yet: {', '.join(missing)}")
    return FAILED if missing else DONE


def _score_run(
    workdir: epath.Path,
    items: Sequence[Any],
    files_hash: str,
    args: argparse.Namespace,
    *,
    kept_step: int = 0,
) -> None:
    """Prints and writes a run's scores.

    Args:
      kept_step: the step to score, or to open. If it (or the checkpoint opened instead)
        has scores already, they are kept and nothing is written. 0: replace scores.
    """
    # After the flags: a wrong one is reported without waiting for imports.
    from research.evaluation.score_tables import table_lines
    from research.evaluation.score_tasks import TASKS
    from research.evaluation.sentence_scores import Scorer, check_method
    from research.files.json_files import digest, write_json
    from research.files.output_files import replace_text
    from research.program.restored import restore_run
    from research.program.setup import use_compilation_cache
    from research.record.workdir import check_same_constants

    config, task = run_config(workdir, args.overrides), TASKS[args.task]
    method = check_method(config.objective, args.method)
    hash = files_hash[:8] + changes_suffix(workdir, config)
    if args.groups or args.limit:  # a folder of its own, which no table reads
        hash += f".{digest([args.groups, args.limit])[:4]}"

    def folder_of(step: int) -> epath.Path:
        return workdir / "evaluations" / f"{args.task}-{method}-{step}-{hash}"

    if kept_step and exists(folder_of(kept_step) / "scores.jsonl"):
        return
    use_compilation_cache(config.data.cache_dir)
    restored = restore_run(config, workdir, args.step)
    folder = folder_of(restored.step)
    if kept_step and exists(folder / "scores.jsonl"):
        return
    scorer = Scorer(restored, method, best=task.judge.reads_best)
    check_same_constants(workdir, restored.facts, scorer.constants.origins)
    scores = _score(scorer, items)
    table = task.judge.table(items, scores, scorer.meaning)
    facts = {"task": args.task, "method": method, "score": scorer.meaning}
    facts |= {"files": args.data, "hash": files_hash, "step": restored.step}
    cells = {
        row: {column: cell.to_json() for column, cell in columns.items()}
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
        print(f"texts longer than data.length, read in windows: {cut}")
    print(folder)


def _score(scorer: Any, items: Sequence[Any]) -> list[list[Any]]:
    """The scores of the texts of each item."""
    texts = [text for item in items for text in item.texts]
    contexts = [context for item in items for context in item.contexts]
    suffixes = [item.suffix for item in items for _ in item.texts]
    draws = [item.id for item in items for _ in item.texts]
    scores = iter(scorer(texts, contexts, suffixes, draws=draws))
    return [[next(scores) for _ in item.texts] for item in items]


def _line(item: Any, scores: Sequence[Any]) -> dict[str, Any]:
    """An item's line of scores.jsonl."""
    return {
        "id": item.id,
        "group": item.group,
        "gold": item.gold,
        "scores": [score._asdict() for score in scores],
    }


def parser() -> Parser:
    from research.data.read.picture_sources import kinds
    from research.evaluation.score_tasks import PICTURE_TASKS, task_lines

    tasks = (f"{name}: {line}" for name, line in task_lines().items())
    readers = " and ".join(PICTURE_TASKS)
    parser = Parser(__doc__)
    parser.add_path("--workdir", required=True, help="folder of a run or a sweep")
    parser.add_argument("--task", required=True, help="; ".join(tasks))
    parser.add_path("--data", required=True, help="a file, folder or glob")
    parser.add_path("--pictures", default="", help=f"{kinds()}, for {readers}")
    parser.add_argument("--fields", default="", help="columns instead of the task's")
    parser.add_argument("--label", default="", help="label column, likewise")
    parser.add_argument("--groups", default="", help="patterns, e.g. *agreement*")
    help = "items per group; tables do not read these scores"
    parser.add_argument("--limit", type=whole(0), default=0, help=help)
    parser.add_argument("--method", default="", help="default: the objective's first")
    help = "step of the checkpoint; 0: the one that opens the run"
    parser.add_argument("--step", type=whole(0), default=0, help=help)
    return parser


if __name__ == "__main__":
    main(run, parser(), resumes=True)
