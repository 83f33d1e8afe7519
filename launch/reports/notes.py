"""The notes below a table: what is compared, verdicts on claims, and sources."""

import shlex
from collections.abc import Iterable, Iterator

import numpy as np

from launch.reports.cell_text import (
    MIXED_MARK,
    ONE_SEED_MARK,
    OUTSIDE_MARK,
    format_difference,
    format_verdict,
    is_compared,
    shows_both,
)
from launch.reports.cells import NO_ESTIMATE, Cell, Grid, compare_claims
from launch.reports.tables import Table
from research.evaluation.comparison import LEVEL, NOT_DECIDED, TOO_FEW
from research.evaluation.learning import SMALL_GAIN, predicts_one_class
from research.evaluation.statistics import signal_to_noise
from research.metrics import notes_lines

CONFIDENCE = "95 %"


def notes(table: Table, grid: Grid) -> list[str]:
    """The notes below a table: comparisons, meanings of signs, and sources."""
    cells = [cell for row in grid.values() for cell in row.values() if cell]
    both = [cell for cell in cells if shows_both(cell)]
    others = [cell for cell in cells if not shows_both(cell)]
    counts = {cell.estimate.count for cell in others if cell.estimate.margin > 0}
    has_single_runs = 1 in counts
    counts.discard(1)
    texts = [table.note] if table.note else []
    percent = [
        column.name
        for column in table.columns
        if column.most == 100 and "%" not in column.name
    ]
    if percent:
        texts.append(f"In per cent: {', '.join(percent)}.")
    if counts:
        seeds = " or ".join(map(str, sorted(counts)))
        texts.append(f"±: {CONFIDENCE} confidence interval (t) over {seeds} seeds.")
    if both:
        texts.append(
            "A cell with two numbers has two seeds; intervals and verdicts need three."
        )
    if has_single_runs:
        texts.append(
            f"± of a single run: {CONFIDENCE} confidence interval over draws of its "
            "items (jackknife); further seeds are not in it."
        )
    if any(cell.one_seed and cell.estimate.count > 1 for cell in cells):
        texts.append(
            f"{ONE_SEED_MARK}: one pretraining seed; ± is over its fine-tuning seeds."
        )
    if any(cell.shares_outside_start for cell in cells):
        texts.append(
            f"{OUTSIDE_MARK}: seeds of one checkpoint that no run of the sweep made; ± "
            "and verdict are on further seeds of what is trained from it, not of its "
            "pretraining."
        )
    texts += _comparison_notes(table, grid)
    texts += _claim_notes(table, grid)
    texts += _population_notes(grid)
    texts += failure_notes(cells)
    texts += _missing_notes(cells)
    texts += _diverged_notes(cells)
    sources = dict.fromkeys(cell.paper.source for cell in cells if cell.paper)
    if sources:
        texts.append(f"Papers: {'; '.join(sources)}.")
    numbers = [number for cell in cells for number in cell.numbers]
    found = {}
    for number in numbers:
        found |= number.trial.result.get("notes", {})
    texts += [f"{line}." for line in notes_lines(found)]
    if any(cell.mixed_data for cell in cells):
        texts.append(
            f"{MIXED_MARK}: runs of this cell read different data, were tested on "
            "different data, or read the same data by different vocabularies."
        )
    origins = [number.origins("commit") for number in numbers]
    commits = dict.fromkeys(str(commit)[:10] for own in origins for commit in own)
    if len(commits) > 1:
        texts.append(f"The runs have different code: commits {', '.join(commits)}.")
    return texts


def _comparison_notes(table: Table, grid: Grid) -> Iterator[str]:
    found = [c.comparison for row in grid.values() for c in row.values() if c]
    found = [comparison for comparison in found if comparison]
    if not found:
        return
    verdicts = [comparison.verdict() for comparison in found]
    if TOO_FEW in verdicts:
        yield "A ranking from fewer than three pretraining seeds carries no verdict."
    if not set(verdicts) - {TOO_FEW}:
        return
    baseline = table.baseline_text
    if len(table.all_baselines) == 1:
        baseline = f"“{baseline}”"
    yield (
        f"difference: from {baseline}, paired by pretraining seed. verdict: on "
        f"further seeds and items, at {100 * LEVEL:.0f} % for all {len(found)} "
        "together (Holm)."
    )
    if fixed := _columns_of_fixed_items(table, grid):
        yield (
            f"{', '.join(fixed)}: a verdict is on further seeds alone, since scores of "
            "single items are not known; the items count as fixed."
        )
    if NOT_DECIDED in verdicts:
        yield (
            "needs N seeds: with N seeds, a true difference of this size is found in "
            "80 % of cases."
        )
    for column in filter(lambda each: is_compared(table, each, grid), table.columns):
        drawn = [cells[column.name] for cells in grid.values()]
        drawn = [cell for cell in drawn if cell and cell.numbers]
        repeated = [cell.values for cell in drawn if len(cell.values) > 1]
        if repeated and any(np.ptp(values) for values in repeated):
            ratio = signal_to_noise([cell.estimate.mean for cell in drawn], repeated)
            yield f"Signal-to-noise ratio of {column.name} over seeds: {ratio:.1f}."


def _columns_of_fixed_items(table: Table, grid: Grid) -> list[str]:
    """The columns with comparisons that have one number for each run."""
    numbers = [
        (name, number)
        for cells in grid.values()
        for name, cell in cells.items()
        if cell and cell.comparison
        for number in cell.numbers
    ]
    fixed = {name for name, number in numbers if not number.scores.ndim}
    return [column.name for column in table.columns if column.name in fixed]


def _claim_notes(table: Table, grid: Grid) -> Iterator[str]:
    """The result of our runs for each comparison of the paper."""
    if not table.claims:
        return
    compared = compare_claims(table, grid)
    digits = {column.name: column.digits for column in table.columns}
    other_data = {column.name for column in table.columns if column.stand_in}
    yield (
        "The paper's own comparisons, paired by pretraining seed, at "
        f"{100 * LEVEL:.0f} % for all {len(compared)} that were run together (Holm):"
    )
    for claim in filter(lambda claim: claim.column in digits, table.claims):
        name = f"{claim.better} over {claim.worse}, {claim.column}"
        published = f"{claim.difference:+.4g}"
        if claim.column in other_data:
            published = published[0]
        text = f"{name} (paper: {published}): "
        if found := compared.get(claim):
            cell = Cell((), NO_ESTIMATE, found, None, claim.difference)
            ours = format_difference(cell._replace(direction=0.0), digits[claim.column])
            text += f"{format_verdict(cell)}; ours {ours}"
        else:
            text += "not run"
        yield f"{text}."


def _population_notes(grid: Grid) -> Iterator[str]:
    """The cells whose pretraining seeds are of two populations."""
    found = [
        f"{row}, {column} ({len(cell.at_frequencies)} of {cell.num_seeds})"
        for row, own in grid.items()
        for column, cell in own.items()
        if cell and cell.two_populations
    ]
    if found:
        yield (
            "Two populations: some pretraining seeds have learnt little more than how "
            "often tokens occur, the others have; a mean over both has no interval and "
            f"no verdict: {'; '.join(found)}."
        )


def failure_notes(cells: Iterable[Cell]) -> Iterator[str]:
    """Names the finished runs that learnt too little to be compared."""
    trials = {n.trial.id: n.trial for cell in cells for n in cell.numbers}.values()
    if failed := [trial.name for trial in trials if trial.knows_no_context]:
        yield (
            "Learnt little more than how often tokens occur (a loss within "
            f"{100 * SMALL_GAIN:.0f} % of their entropy): {'; '.join(failed)}. Try "
            "more train.steps, of your own text 1,000 and more (docs/howto/plateau.md)."
        )
    if failed := [
        trial.name for trial in trials if predicts_one_class(trial.result["metrics"])
    ]:
        yield f"Predict only one class or one tag: {'; '.join(failed)}."


def _diverged_notes(cells: list[Cell]) -> Iterator[str]:
    """Names the runs that diverged, so that their cells are empty."""
    found = {trial.id: trial.name for cell in cells for trial in cell.diverged}
    if found:
        yield (
            "Diverged (a loss or a parameter was not finite), so that their cells have "
            f"no number: {', '.join(found.values())}."
        )


def _missing_notes(cells: list[Cell]) -> Iterator[str]:
    """The command that fills the cells whose runs are missing."""
    found = {trial.id: trial for cell in cells for trial in cell.missing}
    missing = {key: trial for key, trial in found.items() if not trial.done}
    if len(missing) < len(found):
        yield "Scores of finished runs are missing; they are made after the run."
    if not missing:
        return
    trial = next(iter(missing.values()))
    one = f"{trial.row}, {trial.group}" if trial.row else trial.name
    workdir = shlex.quote(str(trial.folder.parent))
    runs = "1 run is" if len(missing) == 1 else f"{len(missing)} runs are"
    yield (
        f"{runs} missing; a cell with (1 of 3) shows the mean of the finished runs, "
        "which is not compared. To run all: palimpsest sweep resume "
        f"--workdir={workdir}; to run those of one cell, add for example "
        f"--trial={shlex.quote(one)}"
    )
