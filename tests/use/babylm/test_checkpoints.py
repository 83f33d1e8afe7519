"""A model is asked as it was trained; a run's checkpoints are named by words."""

from types import SimpleNamespace

import pytest

from research.evaluation.babylm.rules import MAIN
from research.objectives import make_objective
from research.use.babylm.checkpoints import Checkpoints, default_backend
from tests.testing.example_batches import vocab

VOCAB = vocab()


@pytest.mark.parametrize(
    ("name", "fields", "is_run", "backend"),
    [
        ("lm", {}, True, "causal"),
        ("lm", {"direction": "backward"}, True, "own"),
        ("mlm", {}, True, "mlm"),
        ("mlm", {"predict_at": "previous"}, True, "mntp"),
        ("plm", {}, True, "own"),
        (
            "hybrid",
            {"parts": {"lm": {}, "mlm": {"predict_at": "previous"}}},
            True,
            "mntp",
        ),
        ("dae", {}, False, "enc_dec_mask"),  # of hf:DIR, as T5
        ("dae", {}, True, "own"),
        ("electra", {}, True, "own"),
    ],
)
def test_a_model_is_asked_as_it_was_trained(name, fields, is_run, backend):
    objective = make_objective(name, **fields)
    run = SimpleNamespace(objective=objective)
    model = SimpleNamespace(run=run, needs=objective.needs(VOCAB))
    assert default_backend(model, is_run=is_run) == backend


@pytest.mark.parametrize(
    ("source", "expected"),
    [(("runs/a", 30), "runs/a/checkpoints/30"), (("hf:dir/main", 0), "hf:dir/main")],
)
def test_fine_tuning_starts_from_the_last_checkpoint(source, expected):
    assert Checkpoints("a", {MAIN: source}, 0).source_of_main() == expected
