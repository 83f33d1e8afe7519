"""Entries of a leaderboard, one JSON object per run, and their ranking."""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from etils import epath

from launch.reports.cell_text import format_p
from launch.reports.default_table import SEED
from research.config.identity import read_run_config
from research.contract.errors import UserError, unknown
from research.evaluation.babylm.rules import MAIN
from research.evaluation.comparison import Comparison, compare
from research.evaluation.score_tables import ALL
from research.evaluation.statistics import MIN_SEEDS, estimate
from research.files.existence import exists
from research.files.json_files import digest, read_json
from research.metrics import signs
from research.program.words_seen import FILE as WORDS_FILE
from research.record.workdir import fixed_keys, read_result
from research.use.model_card import public_name, text_of

FORMAT = 1
FIELDS = {"format": int, "id": str, "config": str, "name": str, "scores": dict}


class RankedRow(NamedTuple):
    """A row of the ranking: runs whose configs differ only in the seed."""

    name: str
    entries: list[dict[str, Any]]
    values: dict[str, tuple[float, float, float]]  # score -> mean and its interval


def make_entry(
    workdir: epath.PathLike, name: str, babylm: Path | None = None
) -> dict[str, Any]:
    """The entry of a run that has ended.

    Scores are the metrics of its last evaluations, accuracies of `palimpsest score`,
    and results of `palimpsest babylm` for its last checkpoint. A score has the ends of
    its 95 % interval over items, if the interval is known.

    Args:
      name: of its row; runs that differ only in the seed have the same name.
      babylm: the folder of results (`--to` of palimpsest babylm).

    Raises:
      UserError: the run has not ended, or one of its files is damaged.
    """
    workdir = epath.Path(workdir)
    if not exists(workdir / "result.json"):
        raise UserError(f"{workdir} is not a finished run: it has no result.json")
    result, config = read_result(workdir), read_run_config(workdir)
    origin = {}
    if exists(workdir / "provenance.json"):
        origin = read_json(workdir / "provenance.json", "delete it")
    words = None
    if exists(workdir / WORDS_FILE):
        words = read_json(workdir / WORDS_FILE, "train the run again")["seen"]
    keys = fixed_keys(config)
    without_seed = {key: value for key, value in keys.items() if key != "seed"}
    metrics, margins = result["metrics"], result.get("margins", {})
    scores = {
        key: _score(value, margins.get(key, math.nan))
        for key, value in metrics.items()
        if "/" in key and not key.startswith("train/")
    }
    step = result["best_step"] or result["steps"]
    scores |= _scores_of_tasks(workdir, step)
    if babylm:
        scores |= _babylm_scores(babylm / workdir.name)
    return {
        "format": FORMAT,
        "id": digest(keys),
        "config": digest(without_seed),
        "name": SEED.sub("", name).strip(" ,") or name,
        "seed": config["seed"],
        "objective": config["objective"]["name"],
        "network": config["model"]["network"],
        "parameters": result["parameters"],
        "text": text_of(config["data"], public_name),
        "text_hash": origin.get("data"),
        "tokens": result["tokens_seen"],
        "words": words,
        "flops": result["flops_to"][-1][1],
        "seconds": result["train_seconds"],
        "device": origin.get("device"),
        "devices": origin.get("devices"),
        "commit": origin.get("commit"),
        "scores": scores,
    }


def _score(value: float, margin: float) -> dict[str, float | None]:
    ends = {"low": value - margin, "high": value + margin}
    return {"value": value} | {k: None if math.isnan(v) else v for k, v in ends.items()}


def _scores_of_tasks(workdir: epath.Path, step: int) -> dict[str, Any]:
    """Accuracies over all items of `palimpsest score`, at this step."""
    found: dict[str, Any] = {}
    for path in sorted(workdir.glob("evaluations/*/table.json")):
        table = read_json(path, "delete its folder, and score again")
        if table.get("step") == step:
            of_all = table["table"].get(ALL, {})
            for column, cell in of_all.items():
                if column.startswith("accuracy"):
                    found[f"{table['task']} {column}"] = cell
    return found


def _babylm_scores(folder: Path) -> dict[str, Any]:
    """The results of the last checkpoint, by rules, backend and task."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("palimpsest_*.json")):
        content = read_json(path, "delete it, and evaluate again")
        prefix = f"{content['rules']} {content['backend']}"
        for task, result in content["revisions"].get(MAIN, {}).items():
            cell = {name: result[name] for name in ("value", "low", "high")}
            found[f"{prefix} {task}"] = cell
    return found


def read_entries(folder: Path) -> list[dict[str, Any]]:
    """All entries of a folder.

    Raises:
      UserError: there is none, or one is damaged or of another format.
    """
    remedy = "take it out of the folder, or write it again"
    entries = [
        read_json(path, remedy, FIELDS) for path in sorted(folder.glob("*.json"))
    ]
    if not entries:
        raise UserError(
            f"{folder} has no entries; palimpsest leaderboard --entries={folder} "
            "--workdir=RUN_OR_SWEEP writes those of runs"
        )
    if other := [each["format"] for each in entries if each["format"] != FORMAT]:
        raise UserError(f"{folder}: entries must have format {FORMAT}, got {other[0]}")
    return entries


def by_backend(
    entries: Sequence[dict[str, Any]], patterns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """An entry for each word that a pattern's * stands for, which ends its name.

    `babylm_2026 * blimp` makes a row of each backend that a model was scored with. The
    entry has the score under the pattern's name. One without such a score is kept.
    """
    regexes = [re.escape(each).replace(r"\*", r"(\S+)") for each in patterns]
    for entry in entries:
        scores = entry["scores"]
        found = (re.fullmatch(each, name) for each in regexes for name in scores)
        words = sorted({match[1] for match in found if match})
        for word in words:
            names = {each: each.replace("*", word) for each in patterns}
            more = {each: scores[own] for each, own in names.items() if own in scores}
            yield entry | {
                "name": f"{entry['name']} ({word})",
                "config": f"{entry['config']} {word}",
                "scores": scores | more,
            }
        if not words:
            yield entry


def rank(
    entries: Sequence[dict[str, Any]], by: str = ""
) -> tuple[str, list[RankedRow]]:
    """The score by which runs are ranked, and the rows, the best one first.

    A row's number is the mean over its seeds with a 95 % interval by Student's t. With
    one seed it is the run's score with its interval over items. Rows without the score
    come last.

    Args:
      by: the name of a score; "": the score that most entries have.

    Raises:
      UserError: no entry has the score.
    """
    names = sorted({name for entry in entries for name in entry["scores"]})
    have = {name: sum(name in entry["scores"] for entry in entries) for name in names}
    if by and by not in have:
        raise unknown("score", by, names)
    if not names:
        raise UserError("no entry has a score")
    by = by or max(names, key=lambda name: (have[name], _sign(name)))
    rows: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        rows.setdefault(entry["config"], []).append(entry)
    ranked = [
        RankedRow(
            own[0]["name"],
            own,
            {
                name: _mean([e["scores"][name] for e in own if name in e["scores"]])
                for name in names
                if any(name in e["scores"] for e in own)
            },
        )
        for own in rows.values()
    ]

    def order(row: RankedRow) -> tuple[float, str]:
        value = -_sign(by) * row.values[by][0] if by in row.values else math.inf
        return value, row.name

    return by, sorted(ranked, key=order)


def _sign(score: str) -> int:
    """1 if higher is better, -1 if lower is, as its metric declares."""
    return signs().get(score.rpartition("/")[2], 1)


def _mean(cells: Sequence[dict[str, Any]]) -> tuple[float, float, float]:
    """The mean of a score over seeds, and the ends of its interval; nan: none."""
    if len(cells) == 1:
        ends = (cells[0][name] for name in ("low", "high"))
        low, high = (math.nan if end is None else end for end in ends)
        return cells[0]["value"], low, high
    found = estimate([cell["value"] for cell in cells])
    return found.mean, found.mean - found.margin, found.mean + found.margin


def differences(by: str, rows: Sequence[RankedRow], baseline: str) -> list[str]:
    """Each row's difference from a baseline, paired by seed, with interval and p.

    p is adjusted for all rows (Holm). With fewer than three seeds a cell has neither
    interval nor p; "": the row shares no seed with the baseline, or is the baseline.

    Raises:
      UserError: not exactly one row has the baseline's name and the score.
    """
    named = [row for row in rows if by in row.values]
    bases = [row for row in named if row.name == baseline]
    if not bases:
        raise unknown("row", baseline, {row.name for row in named})
    if len(bases) > 1:
        raise UserError(f"{len(bases)} rows are called {baseline}: rename all but one")
    base, pairs = _by_seed(bases[0], by), {}
    for number, row in enumerate(rows):
        own = {} if row is bases[0] else _by_seed(row, by)
        if seeds := sorted(own.keys() & base.keys()):
            scores = ([of[seed] for seed in seeds] for of in (own, base))
            pairs[number] = tuple(scores)
    found = compare(pairs)
    return [
        _gap_cell(found[number]) if number in found else ""
        for number in range(len(rows))
    ]


def _gap_cell(found: Comparison) -> str:
    mean, margin, count = found.difference
    if count < MIN_SEEDS:
        return f"{mean:+.3g}"
    return f"{mean:+.3g} ± {margin:.2g}, p {format_p(found.adjusted_p)}"


def _by_seed(row: RankedRow, score: str) -> dict[int, float]:
    cells = {entry["seed"]: entry["scores"].get(score) for entry in row.entries}
    return {seed: cell["value"] for seed, cell in cells.items() if cell}


def ranking_lines(
    by: str, rows: Sequence[RankedRow], others: Sequence[str], baseline: str = ""
) -> list[str]:
    """A table in Markdown, with `by` and further scores.

    Args:
      baseline: the row from which others differ; "": no column of differences.

    Raises:
      UserError: as `differences`.
    """
    scores = [by, *(name for name in others if name != by)]
    gaps = differences(by, rows, baseline) if baseline else []
    facts = ["seeds", "parameters", "tokens", "FLOPs", "minutes", "on"]
    above = [f"above {baseline}"] if baseline else []
    header = ["", "", *scores, *above, *facts]
    lines = [header, ["--:", ":--", *["--:"] * (len(header) - 3), ":--"]]
    for number, row in enumerate(rows, 1):
        first = row.entries[0]
        lines.append(
            [
                str(number) if by in row.values else "",
                row.name,
                *(_cell(row.values.get(name)) for name in scores),
                *gaps[number - 1 : number],
                str(len(row.entries)),
                f"{first['parameters']:,}",
                f"{first['tokens']:,}",
                f"{first['flops']:.2g}",
                f"{first['seconds'] / 60:.1f}",
                f"{first['devices']} x {first['device']}",
            ]
        )
    return [f"| {' | '.join(cells)} |" for cells in lines]


def _cell(value: tuple[float, float, float] | None) -> str:
    if value is None:
        return ""
    mean, low, high = value
    interval = "" if math.isnan(low) else f" [{low:.4g}, {high:.4g}]"
    return f"{mean:.4g}{interval}"
