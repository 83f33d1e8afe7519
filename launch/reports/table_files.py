"""The file of a table: TOML that names its columns, or Python that defines TABLE.

title = "Ablation of BERT's objectives (BERT, table 5)"
row_header = ""               # header of the first column
note = "What is equal."       # shown below the table
baseline = "No NSP"           # a row of the sweep; "": none
paper = "bert5"               # of experiments/claims: its columns, numbers and claims
columns = ["BLiMP", "MNLI"]   # without a paper: columns of papers or our own
bars = ["BLiMP"]              # columns that the report draws as bars; of a paper all
growth = ["BLiMP"]            # drawn by figures of this name (docs/parts.md)
claims = ["babylm2023"]       # of experiments/claims: their claims about these columns

[metrics]                     # further columns: task -> its metric
"SST-2" = "accuracy"

[baselines]                   # rows that are compared with another one than `baseline`
"No NSP, large" = "No NSP"    # "": with none

title and note are required. The sweep names the rows. Columns of the cost of
pretraining come first.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from launch import user_code
from launch.reports import columns as own_columns
from launch.reports import report_figures
from launch.reports.default_table import default_table
from launch.reports.result_columns import LOSS_CURVES, task_column
from launch.reports.tables import (
    Claimed,
    Column,
    Paper,
    Table,
    for_sweep,
    labelled_rows,
)
from launch.sweeps import benchmarks, published, sweep_plan
from launch.sweeps.benchmarks import PERPLEXITY
from launch.sweeps.published import Published
from launch.sweeps.trial import Trial
from research import metrics
from research.contract.errors import UserError, unknown
from research.files.json_files import check_object

FIGURES = report_figures.FOLDER.names()
LISTS = ("columns", "bars", *FIGURES, "claims")
DEFAULTS = {
    **{name: "" for name in ("row_header", "baseline", "paper")},
    **{name: [] for name in LISTS},
    **{name: {} for name in ("metrics", "baselines")},
}
FIELDS = {"title": str, "note": str} | {k: type(v) for k, v in DEFAULTS.items()}

BEST_RATE = (
    "If fine-tuning has several learning rates, the best is chosen on the validation "
    "split."
)
"""A sentence added to the note of a paper's table."""


def load_table(file: str) -> Table:
    """The table that a file defines.

    Raises:
      UserError: there is no such file, or it does not define a table.
    """
    path = Path(user_code.find(file))
    if not path.is_file():
        near = [str(p) for end in ("toml", "py") for p in path.parent.glob(f"*.{end}")]
        raise unknown("table", file, near) if near else UserError(f"no file {file}")
    if path.suffix == ".toml":
        table = _read_toml(path)
        _check_names(file, table)
        return table
    table = getattr(user_code.module_at(file), "TABLE", None)
    if not isinstance(table, Table) or not callable(table.rows):
        raise UserError(f"{file} is not a table: it does not define TABLE, a `Table`")
    names = [column.name for column in table.columns if isinstance(column, Column)]
    if len(names) < max(1, len(table.columns)):
        raise UserError(f"{file}: TABLE.columns must list one `Column` or more")
    _check_names(file, table)
    for field, drawn in {"bars": table.bars, **table.figures}.items():
        for name in drawn:
            if name not in names:
                raise unknown(f"column of TABLE.{field} in {file}", name, names)
    for column in table.columns:
        if column.better not in (known := (metrics.HIGHER, metrics.LOWER)):
            raise unknown(f"`better` of {column.name} in {file}", column.better, known)
    return table


def _check_names(file: str, table: Table) -> None:
    """Raises UserError: two columns have the same name."""
    names = [column.name for column in table.columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UserError(f"{file}: several columns are named {twice[0]!r}")


def sweep_table(file: str, workdir: str) -> tuple[Table, list[Trial]]:
    """A file's table with the columns for which a sweep has trials, and the trials.

    Args:
      file: "": the `default_table` of the sweep.

    Raises:
      UserError: as `load_table` and `read_plan`.
    """
    if not file:
        trials = sweep_plan.read_plan(workdir)
        return default_table(trials), trials
    table, trials = load_table(file), sweep_plan.read_plan(workdir)
    with user_code.name_line_in_errors(file):
        return for_sweep(table, trials, sweep_plan.read_tasks(workdir)), trials


def _read_toml(path: Path) -> Table:
    try:
        content = DEFAULTS | tomllib.loads(path.read_text("utf-8"))
        check_object(content, FIELDS)
        check_object(content["metrics"], {}, values=str)
        for name in LISTS:
            entries = {f"{name}[{i}]": each for i, each in enumerate(content[name])}
            check_object(entries, {}, values=str)
            if twice := [s for s in content[name] if content[name].count(s) > 1]:
                raise ValueError(f"{name} has {twice[0]!r} several times")
    except ValueError as error:  # also of TOML, and bytes that are not UTF-8
        raise UserError(f"{path} is not a table: {error}") from error
    for name, value in content.items():
        if name not in FIELDS or (name in FIGURES and value and not _of_columns(name)):
            raise unknown(f"key of {path}", name, set(FIELDS) - {name})
    try:
        return _table(content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _of_columns(figures: str) -> bool:
    return report_figures.FOLDER.part_class(figures, "figures").of_columns


def _table(content: Mapping[str, Any]) -> Table:
    """The table that a TOML file describes.

    Raises:
      UserError: a name in it is not known.
    """
    paper, note, names = None, content["note"], content["columns"]
    if content["paper"]:
        paper, note = _published(content["paper"]), f"{note} {BEST_RATE}"
        (numbers, *_) = paper.rows.values()
        names = list(numbers)
    own = own_columns.by_name(always=False)
    probed = [benchmarks.COLUMNS[name] for name in benchmarks.PROBES]
    columns = [
        *(own[name] for name in names if name in own),
        *_benchmark_columns([n for n in names if n not in own], not paper),
        *(
            task_column(f"{task} ({metric})", task, _known(metric), margin=True)
            for task, metric in content["metrics"].items()
            if (task, metric) not in probed
        ),
    ]
    costs = own_columns.by_name(always=True).values()
    shown = [column.name for column in columns]
    probes = [name for name in benchmarks.PROBES if name not in shown]
    figures = {name: tuple(content[name]) for name in FIGURES if content[name]}
    for field in ("bars", *figures):
        for name in content[field]:
            if name not in (known := [*probes, *shown]):
                raise unknown(f"column of {field}", name, known)
    claims = [paper] if paper else map(_published, content["claims"])
    return Table(
        title=content["title"],
        row_header=content["row_header"],
        note=note,
        rows=labelled_rows,
        columns=(*costs, *_benchmark_columns(probes, True), *columns),
        baseline=content["baseline"],
        baselines=content["baselines"],
        papers=_papers(paper) if paper else {},
        claims=tuple(claim for each in claims for claim in _claimed(each, shown)),
        curves=LOSS_CURVES,
        bars=tuple((*probes, *shown) if paper else content["bars"]),
        figures=figures,
    )


def _known(metric: str) -> str:
    """The metric, if there is one of this name."""
    if metric not in metrics.signs() and metric != PERPLEXITY:
        raise unknown("metric", metric, [*metrics.signs(), PERPLEXITY])
    return metric


def _benchmark_columns(names: Sequence[str], all_known: bool) -> Iterable[Column]:
    """Columns of published tasks, and means of these.

    Args:
      all_known: True: a name that cannot be run is an error; False: it is left out.
    """
    known = [*benchmarks.COLUMNS, *benchmarks.MEANS, *benchmarks.AVERAGES]
    for name in names if all_known else ():
        if name not in known:
            raise unknown("column", name, [*own_columns.by_name(always=False), *known])
    for name, parts in benchmarks.columns(tuple(names)).items():
        if parts:
            stand_in = benchmarks.PARTIAL.get(name, "")
            shown = {"digits": 1, "tested": True, "stand_in": stand_in}
            yield Column(name, "", "", mean_of=parts, **shown)
        else:
            yield task_column(name, *benchmarks.COLUMNS[name])


def _published(name: str) -> Published:
    """The table of experiments/claims/NAME.toml.

    Raises:
      UserError: there is none.
    """
    names = [path.stem for path in published.FOLDER.glob("*.toml")]
    if name not in names:
        raise unknown("paper", name, names)
    return published.read_published(name)


def _papers(paper: Published) -> dict[tuple[str, str], Paper]:
    return {
        (row, column): Paper(number, paper.source, paper.mark)
        for row, own in paper.rows.items()
        for column, number in own.items()
    }


def _claimed(paper: Published, columns: Sequence[str]) -> Iterable[Claimed]:
    """The claims of a published table about some columns."""
    for claim, difference in paper.differences():
        if claim["metric"] in columns:
            yield Claimed(claim["better"], claim["worse"], claim["metric"], difference)
