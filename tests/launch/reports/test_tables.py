"""Tables: means, intervals and tests of trials; missing runs are refused."""

import dataclasses
import itertools
import math
import re
import shlex
import shutil

import numpy as np
import pytest

from launch.backends.attempt_log import Budget
from launch.reports import cell_text, cells, figures, notes, result_columns, tables
from launch.sweeps import sweep_plan
from launch.sweeps.status import trial_status
from launch.sweeps.tasks import Task
from research.contract.errors import UserError
from research.evaluation.comparison import compare
from research.evaluation.statistics import Estimate, estimate
from tests.testing import fake_sweep

PRETRAINED = ("lm", "mlm")


def _grid(workdir, table=fake_sweep.TABLE, change=lambda trials: trials):
    fake_sweep.finished(workdir)
    return cells.fill_table(table, change(sweep_plan.read_plan(workdir)))


def test_a_cell_is_the_mean_of_its_trials_with_interval_and_comparison(tmp_path):
    grid = _grid(tmp_path)
    for row, scores in fake_sweep.SCORES.items():
        cell = grid[row]["score"]
        assert sorted(cell.values) == sorted(scores)
        assert cell.estimate == estimate(scores) and not cell.one_seed
    expected = compare(
        {row: (fake_sweep.SCORES[row], fake_sweep.SCORES["none"]) for row in PRETRAINED}
    )
    assert {row: grid[row]["score"].comparison for row in PRETRAINED} == expected
    assert grid["none"]["score"].comparison is None
    assert grid["none"]["size, M"] is None
    assert grid["mlm"]["score"].direction == 84 - 60
    assert grid["lm"]["score"].direction == 0


def test_pairs_are_matched_by_seed_not_by_order(tmp_path):
    reverse, straight = _grid(tmp_path, change=lambda t: t[::-1]), _grid(tmp_path)
    assert reverse["lm"]["score"].comparison == straight["lm"]["score"].comparison


def _from_first(trials):
    """All start from the pretraining of seed 0 of their row."""
    first = {trial.experiment: trial for trial in reversed(trials) if not trial.parents}
    return [
        dataclasses.replace(
            trial, parents={k: first[p.experiment] for k, p in trial.parents.items()}
        )
        for trial in trials
    ]


def test_fine_tunings_are_no_further_pretraining_seeds(tmp_path):
    cell = _grid(tmp_path, change=_from_first)["mlm"]["score"]
    scores, baseline = fake_sweep.SCORES["mlm"], fake_sweep.SCORES["none"]
    assert cell.one_seed and cell.estimate == estimate(scores)
    mean, margin, count = cell.comparison.difference
    assert mean == pytest.approx(np.mean(scores) - np.mean(baseline))
    assert math.isnan(margin) and count == 1
    assert cell.comparison.verdict(cell.direction) == "too few seeds"


def test_fresh_parameters_have_the_seed_of_their_vocabulary(tmp_path):
    first, *_, fresh = fake_sweep.finished(tmp_path)
    assert (first.pretraining_seed, fresh.pretraining_seed) == (0, 2)
    trial = dataclasses.replace(fresh, parents={"data.vocabulary": first})
    assert trial.pretraining_seed == 0


def test_pretrainings_with_one_vocabulary_are_seeds_of_their_own(tmp_path):
    first, *_, other = fake_sweep.finished(tmp_path)
    parents = {"data.vocabulary": first}
    own = dataclasses.replace(other, parents=parents, group="pretraining")
    assert own.pretraining_seed == other.config["seed"] != first.config["seed"]
    tuned = dataclasses.replace(first, parents={"train.init_from": own}, group="task")
    untrained = dataclasses.replace(tuned, parents={"data.vocabulary": own})
    assert tuned.pretraining_seed == untrained.pretraining_seed == own.config["seed"]
    further = dataclasses.replace(own, parents={"train.init_from": first})
    assert further.pretraining_seed == first.config["seed"]


def test_scores_of_items_bring_their_variance(tmp_path):
    def items(trial):
        score = trial.result["metrics"]["test/score"]
        return np.repeat([score - 9, score + 9], [10, 10] if score > 70 else [9, 11])

    column = fake_sweep.TABLE.columns[1]
    table = fake_sweep.TABLE._replace(columns=(column._replace(value=items),))
    cell, by_seed = (
        _grid(tmp_path, each)["mlm"]["score"] for each in (table, fake_sweep.TABLE)
    )
    assert cell.numbers[0].scores.shape == (20,)
    assert cell.estimate.mean == pytest.approx(by_seed.estimate.mean)
    assert cell.estimate.margin > 1.2 * by_seed.estimate.margin

    def fewer(trial):
        scores = items(trial)
        return scores[1:] if trial.pretraining_seed else scores

    table = fake_sweep.TABLE._replace(columns=(column._replace(value=fewer),))
    with pytest.raises(UserError, match=r"19 items and .* 20"):
        _grid(tmp_path, table)


def test_a_diverged_run_is_not_missing(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    whole = cells.fill_table(fake_sweep.TABLE, planned)
    trial = fake_sweep.rows(planned)["mlm"]["second"][1]
    fake_sweep.diverge(trial)
    grid = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
    assert cells.is_complete(grid)
    text = cell_text.format_cell(grid["mlm"]["score"], 1)
    assert text.startswith("– 1 of 3 runs diverged")
    assert grid["lm"]["score"].estimate == whole["lm"]["score"].estimate
    texts = " ".join(notes.notes(fake_sweep.TABLE, grid))
    assert f"no number: {trial.name}." in texts and "missing" not in texts
    assert trial_status(trial, Budget(), submitted=False)[0] == "diverged"


def test_there_is_no_interval_over_seeds_on_a_plateau_and_others(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    whole = cells.fill_table(fake_sweep.TABLE, planned)
    first, losses = fake_sweep.rows(planned)["mlm"]["first"], (5.9, 4.0, 5.9)
    for number in range(len(first)):
        for trial, loss in zip(first[: number + 1], losses, strict=False):
            metrics = {"valid/loss": loss, "valid/mlm": loss}
            fake_sweep.write_run(trial, metrics, token_entropy=6.0)
        grid = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
        cell = grid["mlm"]["score"]
        seeds = {trial.pretraining_seed for trial in first[: number + 1 : 2]}
        assert cell.at_frequencies == seeds and cell.two_populations
        assert cell.estimate.mean == pytest.approx(np.mean(fake_sweep.SCORES["mlm"]))
        assert math.isnan(cell.estimate.margin) and cell.comparison is None
        texts = " ".join(notes.notes(fake_sweep.TABLE, grid))
        assert f"mlm, score ({len(seeds)} of 3)" in texts
        other = grid["lm"]["score"]
        assert not other.two_populations
        assert other.estimate == whole["lm"]["score"].estimate
    metrics = {"valid/loss": 5.9, "valid/mlm": 5.9}
    fake_sweep.write_run(first[1], metrics, token_entropy=6.0)
    again = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
    cell = again["mlm"]["score"]
    assert len(cell.at_frequencies) == 3 and not cell.two_populations
    assert cell.comparison == whole["mlm"]["score"].comparison


def test_what_starts_from_a_diverged_run_has_diverged(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    first, second = fake_sweep.rows(planned)["mlm"].values()
    fake_sweep.diverge(first[0])
    (second[0].folder / "result.json").unlink()
    grid = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
    assert [trial.id for trial in grid["mlm"]["score"].diverged] == [second[0].id]


def test_a_metric_that_is_not_a_number_blocks_no_table(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    trial = fake_sweep.rows(planned)["mlm"]["second"][1]
    metrics = trial.result["metrics"] | {"test/matthews": math.nan}
    fake_sweep.write_run(trial, metrics)
    grid = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
    assert grid["mlm"]["score"].estimate.count == 3


def test_a_missing_run_leaves_its_cells_empty_and_is_named(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    whole = cells.fill_table(fake_sweep.TABLE, planned)
    assert cells.is_complete(whole)
    groups = {
        trial.id: (row, name)
        for row, group in fake_sweep.rows(planned).items()
        for name, members in group.items()
        for trial in members
    }
    for trial in planned:
        path = trial.folder / "result.json"
        content = path.read_text()
        path.unlink()
        grid = cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))
        assert not cells.is_complete(grid)
        for row, column in itertools.product(grid, fake_sweep.TABLE.columns):
            cell = grid[row][column.name]
            if groups[trial.id] == (row, column.group):
                assert [each.id for each in cell.missing] == [trial.id]
                assert not cell.numbers and cell.num_trials == 3
            elif cell:
                assert cell.estimate == whole[row][column.name].estimate
        text = " ".join(notes.notes(fake_sweep.TABLE, grid))
        assert f"resume --workdir={tmp_path}" in text
        assert f"--trial={shlex.quote(trial.name)}" in text
        path.write_text(content)


def test_a_mean_counts_a_missing_run_of_two_of_its_columns_once(tmp_path):
    planned = fake_sweep.finished(tmp_path)
    trial = fake_sweep.rows(planned)["mlm"]["second"][1]
    (trial.folder / "result.json").unlink()
    parts = [
        fake_sweep.TABLE.columns[1]._replace(name=name, tested=False) for name in "ab"
    ]
    mean = tables.Column("mean", "", "", mean_of=("a", "b"))
    table = fake_sweep.TABLE._replace(columns=(*parts, mean))
    grid = cells.fill_table(table, _plan(tmp_path))
    ended = np.delete(fake_sweep.SCORES["mlm"], 1).mean()
    for name, start in (("a", f"{ended:.1f} (2 of 3)"), ("mean", "– 1 of 3 runs")):
        text = cell_text.format_cell(grid["mlm"][name], 1)
        assert text.startswith(start)


def _edit(trial, other):
    path = trial.folder / "result.json"
    path.write_text(path.read_text().replace("71.0", "99.0"))


def _copy(trial, other):
    shutil.copy(other.folder / "result.json", trial.folder / "result.json")


def _truncate(trial, other):
    path = trial.folder / "result.json"
    path.write_text(path.read_text()[:100])


def _other_metrics(trial, other):
    shutil.copy(other.folder / "metrics.jsonl", trial.folder / "metrics.jsonl")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_edit, "was changed after the run wrote it"),
        (_copy, "does not belong to lm seed=0.*: seed is 1 there and 0 in"),
        (_truncate, "is damaged"),
        (_other_metrics, "test/score is 71.0 there and 72.5 in metrics.jsonl"),
    ],
)
def test_a_result_that_is_not_its_runs_is_refused(tmp_path, damage, words):
    planned = fake_sweep.finished(tmp_path)
    damage(*fake_sweep.rows(planned)["lm"]["second"][:2])
    with pytest.raises(UserError, match=words):
        cells.fill_table(fake_sweep.TABLE, sweep_plan.read_plan(tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:100],
        lambda text: "[1]",
        lambda text: re.sub(r'"id": "[0-9a-f]{12}"', '"id": "../../x"', text, count=1),
        lambda text: text.replace('"overrides"', '"override"'),
        lambda text: text.replace('"train.steps": 20', '"train.steps": 21', 1),
        lambda text: text.replace('"name": "', '"name": 1, "x": "', 1),
        lambda text: '{"trials": [' + "[" * 9999,
        lambda text: text.replace('"name"', '"folder": "../../x", "name"', 1),
        lambda text: '{"trials": 3}',
        lambda text: text.replace('"trials"', '"trial"'),
    ],
)
def test_a_damaged_plan_is_one_line(tmp_path, change):
    fake_sweep.finished(tmp_path)
    path = tmp_path / "sweep.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=r"sweep.json is .*start the sweep again"):
        sweep_plan.read_plan(tmp_path)


def test_a_row_without_trials_is_refused(tmp_path):
    fake_sweep.finished(tmp_path)
    trials = [
        t for t in sweep_plan.read_plan(tmp_path) if "train.init_from" in t.parents
    ]
    with pytest.raises(UserError, match="no trial of the sweep fills row lm"):
        cells.fill_table(fake_sweep.TABLE, trials)


def test_a_single_run_has_the_margin_of_its_items(tmp_path):
    """Of several, the interval is over them."""
    planned = fake_sweep.finished(tmp_path)
    runs = fake_sweep.rows(planned)["mlm"]["second"][:3]
    rows = {"one": {"x": runs[:1]}, "two": {"x": runs}}
    score = "metrics.test/score"
    column = tables.Column("score", "x", score, 1, margin=lambda trial: 4.25)
    table = tables.Table("", "", "", lambda trials: rows, (column,))
    grid = cells.fill_table(table, planned)
    one, two = (grid[row]["score"] for row in rows)
    assert cell_text.format_cell(one, 1) == f"{one.estimate.mean:.1f} ± 4.2"
    assert two.estimate == estimate(two.values)
    assert "± of a single run" in " ".join(notes.notes(table, grid))
    assert "over 3 seeds" in " ".join(notes.notes(table, grid))


def test_each_row_has_its_own_baseline(tmp_path):
    table = fake_sweep.TABLE._replace(baselines={"mlm": "lm"})
    grid = _grid(tmp_path, table)
    means = {row: grid[row]["score"].estimate.mean for row in grid}
    for row, other in (("mlm", "lm"), ("lm", "none")):
        found = grid[row]["score"].comparison.difference.mean
        assert found == pytest.approx(means[row] - means[other])
    assert grid["none"]["score"].comparison is None
    text = " ".join(notes.notes(table, grid))
    assert "difference: from the row's own baseline" in text and "2 together" in text
    with pytest.raises(UserError, match="unknown baseline row 'nothing'"):
        cells.fill_table(table._replace(baselines={"mlm": "nothing"}), _plan(tmp_path))
    wrong = table._replace(baselines={"mml": "lm"})
    with pytest.raises(UserError, match=r"row of \[baselines\] 'mml'; .* mlm"):
        cells.fill_table(wrong, _plan(tmp_path))


def test_two_trials_of_one_seed_are_refused(tmp_path):
    fake_sweep.finished(tmp_path)
    trials = sweep_plan.read_plan(tmp_path)
    with pytest.raises(UserError, match="share seed"):
        cells.fill_table(fake_sweep.TABLE, trials + trials)


@pytest.mark.parametrize("baseline, value", [("nothing", "parameters"), ("", "x.y")])
def test_an_unknown_row_or_metric_is_refused(tmp_path, baseline, value):
    fake_sweep.finished(tmp_path)
    column = tables.Column("x", "first", value)
    wrong = fake_sweep.TABLE._replace(baseline=baseline, columns=(column,))
    with pytest.raises(UserError, match="unknown"):
        cells.fill_table(wrong, sweep_plan.read_plan(tmp_path))


@pytest.mark.parametrize("value", ["high", [], [[1.0]], {"a": 1}])
def test_what_is_no_number_is_refused(tmp_path, value):
    column = tables.Column("x", "first", lambda trial: value)
    with pytest.raises(UserError, match=r"column 'x' of lm .* must be a number"):
        _grid(tmp_path, fake_sweep.TABLE._replace(columns=(column,)))


def test_what_stands_in_is_in_the_header_and_its_differences_have_a_sign_alone(
    tmp_path,
):
    trials = fake_sweep.finished(tmp_path)
    tasks = {"second": Task("another set", {})}
    table = tables.for_sweep(fake_sweep.TABLE, trials, tasks)
    assert table.columns[1].header == "score (here: another set)"
    header, *rows = cell_text.format_rows(table, cells.fill_table(table, trials))
    assert header[2] == "score (here: another set)"
    (mlm,) = (row for row in rows if row[0] == "mlm")
    assert mlm[3].endswith("(paper: +)")
    table = table._replace(claims=(tables.Claimed("mlm", "lm", "score", 4.0),))
    text = " ".join(notes.notes(table, cells.fill_table(table, trials)))
    assert "mlm over lm, score (paper: +): holds" in text


def test_a_misspelt_group_is_told_and_an_absent_task_is_a_note(tmp_path):
    trials = fake_sweep.finished(tmp_path)
    size, score = fake_sweep.TABLE.columns
    wrong = fake_sweep.TABLE._replace(columns=(size, score._replace(group="secnd")))
    with pytest.raises(UserError, match=r"group of column 'score' 'secnd'.*second"):
        tables.for_sweep(wrong, trials, {})
    absent = fake_sweep.TABLE._replace(columns=(size, score._replace(group="MNLI")))
    assert "Not run here: score" in tables.for_sweep(absent, trials, {}).note


def test_the_papers_own_comparisons_have_verdicts(tmp_path):
    claims = (
        tables.Claimed("mlm", "lm", "score", 4.0),
        tables.Claimed("lm", "mlm", "score", 1.0),
        tables.Claimed("mlm", "absent", "score", 1.0),
    )
    table = fake_sweep.TABLE._replace(claims=claims)
    found = cells.compare_claims(table, _grid(tmp_path, table))
    assert list(found) == [claims[0], claims[1]]
    assert found[claims[0]].verdict(4.0) == "holds"
    assert found[claims[1]].verdict(1.0) == "reversed"
    assert found[claims[0]].adjusted_p == found[claims[0]].p  # one hypothesis
    text = " ".join(notes.notes(table, cells.fill_table(table, _plan(tmp_path))))
    assert "mlm over lm, score (paper: +4): holds" in text
    assert "mlm over absent, score (paper: +1): not run." in text


def _plan(workdir):
    return sweep_plan.read_plan(workdir)


@pytest.mark.parametrize(("most", "end"), [(math.inf, None), (61.0, 61.0)])
def test_axes_of_bars_end_where_the_metric_does(tmp_path, monkeypatch, most, end):
    """An interval may be wider."""
    planned = fake_sweep.finished(tmp_path)
    columns = [each._replace(most=most) for each in fake_sweep.TABLE.columns]
    table = fake_sweep.TABLE._replace(columns=tuple(columns))
    grid = cells.fill_table(table, planned)
    monkeypatch.setattr(figures, "svg_element", lambda figure: figure)
    (panel,) = figures.draw_bars(table, grid, "score").axes
    left, right = panel.get_xlim()
    assert left == 0 and right == (end or right)
    assert end or right > max(v for row in grid.values() for v in row["score"].values)
    figures.pyplot.close("all")


def test_bars_of_negative_values_are_on_the_axis(tmp_path, monkeypatch):
    """As Matthews' coefficient has them, down to its least value."""
    grid = cells.fill_table(fake_sweep.TABLE, fake_sweep.finished(tmp_path))
    monkeypatch.setattr(figures, "svg_element", lambda figure: figure)
    least = result_columns.task_column("CoLA", "cola", "matthews").least
    assert least == -100
    for mean, margin in ((-9.0, 4.0), (2.0, 8.0), (-90.0, 30.0)):
        estimate = Estimate(mean, margin, 3)
        row = {"score": grid["mlm"]["score"]._replace(estimate=estimate)}
        (name,) = (c for c in fake_sweep.TABLE.columns if c.name == "score")
        table = fake_sweep.TABLE._replace(columns=(name._replace(least=least),))
        (panel,) = figures.draw_bars(table, {"mlm": row}, "score").axes
        left, right = panel.get_xlim()
        assert max(mean - margin, least) >= left >= least and right >= 0
    figures.pyplot.close("all")
