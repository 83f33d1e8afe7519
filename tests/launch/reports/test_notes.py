"""Notes below a table: runs that learnt nothing are named."""

import types

import numpy as np
import pytest

from launch.reports import cell_text, cells, notes
from launch.reports.tables import Claimed
from launch.sweeps import sweep_plan
from launch.sweeps.trial import Trial
from research.objectives import make_objective
from tests.testing import fake_sweep


def test_runs_that_learnt_nothing_are_named():
    def number(name, metrics, **more):
        config = {"data.eval_split": "valid"}
        trial = types.SimpleNamespace(id=str(metrics), name=name, config=config)
        trial.objective = make_objective(name)
        trial.result = {"metrics": metrics} | more
        trial.knows_no_context = Trial.knows_no_context.func(trial)
        return cells.Number(trial, np.array(1.0))

    numbers = (
        number("mlm", {"valid/mlm": 5.8}, token_entropy=6.0),
        number("lm", {"valid/lm": 5.6}, token_entropy=6.0),
        number("electra", {"valid/generator": 6.1}, token_entropy=6.0),
        number("plm", {"valid/plm": 6.1}),  # of a run whose tokens were not counted
        number("sequence_classification", {"valid/matthews": 0.0}),
        number("cvt", {"valid/matthews": -0.1, "test/matthews": 0.2}),
    )
    grid = {"row": {"column": cells.Cell(numbers, cells.NO_ESTIMATE)}}
    found = list(notes.failure_notes(grid["row"].values()))
    assert [text.partition(": ")[2].partition(" Try ")[0] for text in found] == [
        "mlm; electra.",
        "sequence_classification.",
    ]


@pytest.mark.parametrize("alone", [True, False])
def test_a_column_without_scores_of_items_has_verdicts_on_these_items(tmp_path, alone):
    """Beside one that has them, which has no such note."""
    fake_sweep.finished(tmp_path)
    score = fake_sweep.TABLE.columns[1]

    def of_items(trial):
        return trial.result["metrics"]["test/score"] + np.arange(20.0)

    columns = (score._replace(name="with items", value=of_items),)
    columns += () if alone else (score,)
    table = fake_sweep.TABLE._replace(columns=columns)
    grid = cells.fill_table(table, sweep_plan.read_plan(tmp_path))
    text = "\n".join(notes.notes(table, grid))
    assert "verdict: on further seeds and items, at 5 %" in text
    assert ("\nscore: a verdict is on further seeds alone" in text) == (not alone)
    assert text.count("further seeds alone") == (not alone)


def test_a_column_of_too_few_seeds_shows_no_verdicts(tmp_path):
    fake_sweep.finished(tmp_path)
    trials = sweep_plan.read_plan(tmp_path)
    for seeds in (1, 2, 3):
        kept = [trial for trial in trials if trial.config["seed"] < seeds]
        grid = cells.fill_table(fake_sweep.TABLE, kept)
        header, *_ = cell_text.format_rows(fake_sweep.TABLE, grid)
        assert header.count("verdict") == (seeds == 3)
        text = "\n".join(notes.notes(fake_sweep.TABLE, grid))
        assert ("carries no verdict" in text) == (seeds < 3)


def test_a_claim_of_two_seeds_shows_no_margin(tmp_path):
    fake_sweep.finished(tmp_path)
    trials = sweep_plan.read_plan(tmp_path)
    table = fake_sweep.TABLE._replace(claims=(Claimed("mlm", "none", "score", 24.0),))
    for seeds in (2, 3):
        kept = [trial for trial in trials if trial.config["seed"] < seeds]
        grid = cells.fill_table(table, kept)
        (line,) = [n for n in notes.notes(table, grid) if n.startswith("mlm over none")]
        assert "; ours +20." in line and ("±" in line) == (seeds == 3)
        assert ("too few seeds" in line) == (seeds == 2)
