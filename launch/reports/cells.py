"""The cells of a table: the numbers of its trials, intervals and comparisons."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from launch.reports.tables import (
    Claimed,
    Column,
    Paper,
    Rows,
    Scoring,
    Table,
    metric_value,
    table_rows,
)
from launch.sweeps.trial import Trial
from research.contract.errors import UserError, unknown
from research.evaluation.comparison import Comparison, compare
from research.evaluation.statistics import Estimate, estimate
from research.files.json_files import digest

NO_ESTIMATE = Estimate(math.nan, math.nan, 0)


class Number(NamedTuple):
    """The values of one trial in a cell."""

    trial: Trial
    scores: np.ndarray  # [], or [I] of single items
    margin: float = math.nan  # of its interval over items; nan: unknown
    others: tuple[Trial, ...] = ()  # for a mean of columns: the trials after the first
    scoring: Scoring | None = None  # how `palimpsest score` made its scores; None: it
    # did not

    @property
    def value(self) -> float:
        return float(self.scores.mean())

    @property
    def trials(self) -> tuple[Trial, ...]:
        return self.trial, *self.others

    def origins(self, name: str) -> tuple[Any, ...]:
        """The "commit", "device", "data" or "test_data" (fingerprints) of its trials.

        None: not recorded.
        """
        return tuple(trial.result["provenance"].get(name) for trial in self.trials)


class Cell(NamedTuple):
    """The numbers of a cell, with their comparison and the paper's number.

    A cell with missing or diverged runs has no `numbers`, so that it is not compared.
    """

    numbers: tuple[Number, ...]
    estimate: Estimate  # over pretraining seeds; if there is one seed, over its trials;
    # if there is one trial, over its items
    comparison: Comparison | None = None  # with the row's baseline
    paper: Paper | None = None
    direction: float = (
        0.0  # the sign of the paper's difference from the baseline; 0: none
    )
    missing: tuple[Trial, ...] = ()  # trials that still have to be run
    diverged: tuple[Trial, ...] = ()
    num_trials: int = 0
    finished: tuple[float, ...] = ()  # the values of the others

    @property
    def values(self) -> tuple[float, ...]:
        return tuple(number.value for number in self.numbers)

    @property
    def draws(self) -> tuple[float, ...]:
        """The values that the estimate averages: a mean for each pretraining seed.

        If there is only one pretraining seed, these are the numbers of its trials.
        """
        means = [float(scores.mean()) for scores in by_seed(self.numbers).values()]
        return tuple(means) if len(means) > 1 else self.values

    @property
    def one_seed(self) -> bool:
        """Whether all trials start from one pretraining seed."""
        return self.num_seeds == 1

    @property
    def num_seeds(self) -> int:
        return len(by_seed(self.numbers))

    @property
    def at_frequencies(self) -> set[int]:
        """The pretraining seeds that have learnt little more than token frequencies."""
        return _at_frequencies(self.numbers)

    @property
    def two_populations(self) -> bool:
        """Whether only some seeds have learnt little more than token frequencies."""
        return _two_populations(self.numbers)

    @property
    def shares_outside_start(self) -> bool:
        """Whether its seeds share a checkpoint that no run of the sweep made.

        Then they are not pretraining seeds.
        """
        trials = {n.trial.pretraining_seed: n.trial for n in self.numbers}
        starts = [start for t in trials.values() if (start := t.outside_start)]
        return len({*starts}) < len(starts)

    @property
    def mixed_data(self) -> bool:
        """Whether its runs have different data or vocabularies.

        Test data are compared, too, if they were recorded.
        """
        tested = [number.origins("test_data") for number in self.numbers]
        known = (set(filter(None, own)) for own in zip(*tested, strict=True))
        read = {number.origins("data") for number in self.numbers}
        return len(read) > 1 or any(len(own) > 1 for own in known)


Grid = dict[str, dict[str, Cell | None]]
"""Row -> column -> cell; None where a column does not apply."""

Numbers = tuple[Number, ...] | None


def fill_table(table: Table, trials: list[Trial]) -> Grid:
    """The cells of a table.

    Raises:
      UserError: a result does not belong to its run, a group of a row has no trials,
        scores of a column come from different files or pairs, or scores of a row from
        different methods.
    """
    rows = table_rows(table, trials)
    _check_rows(rows)
    for what, names in (
        ("baseline row", table.all_baselines),
        ("row of [baselines]", table.baselines),
    ):
        for name in names:
            if name not in rows:
                raise unknown(what, name, rows)
    groups = _column_groups(table)
    columns = {column.name: column for column in table.columns}
    numbers: dict[tuple[str, str], Numbers] = {}
    for column, row in itertools.product(table.columns, rows):
        parts = [numbers[row, name] for name in column.mean_of]
        found = _mean_numbers(parts) if parts else _cell_numbers(column, rows[row])
        numbers[row, column.name] = found
    _check_scorings(numbers)
    _check_items(numbers)
    comparisons = _comparisons(table, numbers)
    grid: Grid = {row: {} for row in rows}
    for (row, name), found in numbers.items():
        key, baseline = (row, name), (table.baseline_of(row), name)
        paper, other = table.papers.get(key), table.papers.get(baseline)
        direction = float(paper.number - other.number) if paper and other else 0.0
        members = [t for group in groups[name] for t in rows[row].get(group, ())]
        diverged = tuple(t for t in members if t.diverged)
        missing = tuple(
            t
            for t in members
            if not (t.diverged or (t.done and columns[name].ready(t)))
        )
        if missing or (diverged and not found):
            # the runs that did not diverge are not a random sample
            ended = () if diverged else _finished_values(columns[name], rows[row])
            facts = paper, direction, missing, diverged, len(members), ended
            grid[row][name] = Cell((), NO_ESTIMATE, None, *facts)
        elif found:
            compared = comparisons.get(key)
            grid[row][name] = Cell(found, _estimate(found), compared, paper, direction)
        else:
            grid[row][name] = None
    return grid


def is_complete(grid: Grid) -> bool:
    """Whether no run of any cell is missing."""
    cells = [cell for row in grid.values() for cell in row.values() if cell]
    return not any(cell.missing for cell in cells)


def _check_rows(rows: Rows) -> None:
    for row, groups in rows.items():
        for name, group in groups.items():
            if not group:
                raise UserError(
                    f"--table: no trial of the sweep fills row {row}, {name}"
                )
            for trial in group:
                if trial.done:
                    trial.check_result()


def _column_groups(table: Table) -> dict[str, tuple[str, ...]]:
    """Column -> the groups whose trials it needs, each once."""
    groups: dict[str, tuple[str, ...]] = {}
    for column in table.columns:
        parts = tuple(group for name in column.mean_of for group in groups[name])
        groups[column.name] = tuple(dict.fromkeys(parts)) or (column.group,)
    return groups


def _cell_numbers(column: Column, groups: Mapping[str, Sequence[Trial]]) -> Numbers:
    """The trials' numbers; None if no trial has one, or runs are missing or diverged.

    Raises:
      UserError: the column is not a number, or seeds cannot be distinguished.
    """
    trials = groups.get(column.group, ())
    ended = [trial for trial in trials if not trial.diverged]
    if not all(trial.done and column.ready(trial) for trial in ended):
        return None
    picked = list(_picked(column, trials))
    if any(trial.diverged for trial in picked):
        return None
    numbers, seen = [], set()
    for trial in picked:
        value = metric_value(column.value, trial)
        if value is None:
            continue
        seeds = _seeds(trial)
        if seeds in seen:
            raise UserError(
                f"--table: two trials of one cell share seed {seeds[1]}: {trial.name}"
            )
        seen.add(seeds)
        try:
            scores = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            scores = np.empty((0, 0))
        if scores.ndim > 1 or not scores.size:
            raise UserError(
                f"--table: column {column.name!r} of {trial.name} must be a number, or "
                f"a list of the scores of items, not {value!r}"
            )
        margin = metric_value(column.margin, trial) if column.margin else math.nan
        made = column.scoring(trial)
        numbers.append(Number(trial, scores, margin, scoring=made))
    return tuple(numbers) or None


def _finished_values(
    column: Column, groups: Mapping[str, Sequence[Trial]]
) -> tuple[float, ...]:
    """The values of the trials that have ended.

    () for a column that takes the best of several settings or the mean of other
    columns, since these need all trials.
    """
    if column.picked_by or column.mean_of:
        return ()
    trials = groups.get(column.group, ())
    ended = [t for t in trials if t.done and column.ready(t)]
    found = _cell_numbers(column, {column.group: ended}) or ()
    return tuple(number.value for number in found)


def _seeds(trial: Trial) -> tuple[int, int]:
    return trial.pretraining_seed, trial.config["seed"]


def _picked(column: Column, trials: Sequence[Trial]) -> Iterator[Trial]:
    """The trials of the best setting of each pretraining seed.

    Settings differ in a config key other than the seed and the start of a trial. A
    setting with a diverged trial counts as the worst.
    """
    if not column.picked_by:
        yield from trials
        return
    by_start: dict[int, dict[str, list[Trial]]] = {}
    for trial in trials:
        own = {"seed", *trial.parents}
        setting = digest({k: v for k, v in trial.config.items() if k not in own})
        settings = by_start.setdefault(trial.pretraining_seed, {})
        settings.setdefault(setting, []).append(trial)

    def quality(group: list[Trial]) -> float:
        if any(trial.diverged for trial in group):
            return -math.inf
        values = [metric_value(column.picked_by, t) for t in group]
        return column.sign * float(np.mean(values))

    for settings in by_start.values():
        yield from max(settings.values(), key=quality)


def _mean_numbers(parts: Sequence[Numbers]) -> Numbers:
    """The means over columns, one for each seed."""
    if not all(parts):
        return None
    by_seeds = [{_seeds(number.trial): number for number in part} for part in parts]
    means = []
    for seeds, first in by_seeds[0].items():
        if all(seeds in numbers for numbers in by_seeds):
            own = [numbers[seeds] for numbers in by_seeds]
            others = tuple(trial for number in own for trial in number.trials)[1:]
            mean = np.mean([number.value for number in own])
            means.append(Number(first.trial, mean, others=others))
    return tuple(means) or None


def _check_scorings(numbers: Mapping[tuple[str, str], Numbers]) -> None:
    """Checks that scores in a column have the same files, in a row the same method."""
    of_column: dict[str, Number] = {}
    of_row: dict[str, tuple[str, Number]] = {}
    for (row, name), all_of_cell in numbers.items():
        for number in all_of_cell or ():
            if (own := number.scoring) is None:
                continue
            trial, folder = number.trial, f"{number.trial.folder}/evaluations"
            first = of_column.setdefault(name, number)
            if own.files != first.scoring.files:
                raise UserError(
                    f"{name}: {trial.name} was scored on other files ({own.files}) "
                    f"than {first.trial.name} ({first.scoring.files}); score it on the "
                    f"same files, and delete its scores of other files in {folder}"
                )
            if own.pairs != first.scoring.pairs:
                raise UserError(
                    f"{name}: {trial.name} and {first.trial.name} have different "
                    "vocabularies, so that other pairs have equally many tokens; leave "
                    "the column out of the table, or show runs of one vocabulary"
                )
            column, first = of_row.setdefault(row, (name, number))
            if own.method != first.scoring.method:
                raise UserError(
                    f"row {row}: {trial.name} was scored by {own.method} for {name}, "
                    f"and {first.trial.name} by {first.scoring.method} for {column}; "
                    "score both by the same --method, and delete the scores by the "
                    f"other method in {folder}"
                )


def _check_items(numbers: Mapping[tuple[str, str], Numbers]) -> None:
    """Checks that the trials of a column have scores of the same number of items."""
    first: dict[str, Number] = {}
    for (_, name), own in numbers.items():
        for number in own or ():
            expected = first.setdefault(name, number)
            if number.scores.shape != expected.scores.shape:
                raise UserError(
                    f"{name}: {number.trial.name} has {number.scores.size} items and "
                    f"{expected.trial.name} has {expected.scores.size}; score both on "
                    "the same items"
                )


def by_seed(numbers: Sequence[Number]) -> dict[int, np.ndarray]:
    """Pretraining seed -> scores [] or [I], averaged over its fine-tunings."""
    scores: dict[int, list[np.ndarray]] = {}
    for number in numbers:
        scores.setdefault(number.trial.pretraining_seed, []).append(number.scores)
    return {seed: np.mean(each, axis=0) for seed, each in sorted(scores.items())}


def _at_frequencies(numbers: Sequence[Number]) -> set[int]:
    return {
        number.trial.pretraining_seed
        for number in numbers
        if (start := number.trial.pretraining).done and start.knows_no_context
    }


def _two_populations(numbers: Sequence[Number]) -> bool:
    return 0 < len(_at_frequencies(numbers)) < len(by_seed(numbers))


def _estimate(numbers: Sequence[Number]) -> Estimate:
    if _two_populations(numbers):
        values = [number.value for number in numbers]
        return Estimate(float(np.mean(values)), math.nan, len(values))
    scores = list(by_seed(numbers).values())
    if len(scores) > 1:
        return estimate(scores)
    if len(numbers) == 1:
        return Estimate(numbers[0].value, numbers[0].margin, 1)
    return estimate([number.value for number in numbers])


def _pair(own: Sequence[Number], other: Sequence[Number]) -> list[list[Any]]:
    """The scores of two cells by shared pretraining seed, for `compare`.

    With fewer than two shared seeds, it is the mean of each cell.
    """
    scores, others = by_seed(own), by_seed(other)
    shared = scores.keys() & others.keys()
    if len(shared) > 1:
        return [[of[seed] for seed in sorted(shared)] for of in (scores, others)]
    return [[_estimate(numbers).mean] for numbers in (own, other)]


def _comparisons(
    table: Table, numbers: Mapping[tuple[str, str], Numbers]
) -> dict[tuple[str, str], Comparison]:
    """The comparisons of tested cells with their baselines, corrected as one family."""
    tested = {column.name for column in table.columns if column.tested}
    family = {}
    for (row, name), own in numbers.items():
        other = numbers.get((table.baseline_of(row), name))
        if name not in tested or not (own and other):
            continue
        if not (_two_populations(own) or _two_populations(other)):
            family[row, name] = _pair(own, other)
    return compare(family)


def compare_claims(table: Table, grid: Grid) -> dict[Claimed, Comparison]:
    """The paper's own comparisons whose runs are here, corrected as one family."""
    family = {}
    for claim in table.claims:
        cells = [
            grid.get(row, {}).get(claim.column) for row in (claim.better, claim.worse)
        ]
        if all(cell and cell.numbers and not cell.two_populations for cell in cells):
            family[claim] = _pair(*(cell.numbers for cell in cells))
    return compare(family)
