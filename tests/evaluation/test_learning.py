"""What has learnt too little is told, and what has learnt is not."""

import re

import pytest

from research.evaluation.learning import learning_warnings, writing_note
from research.objectives import make_objective

PARTS = {
    "mix": {"base_objective": "dae"},
    "joint": {"parts": {"a": {"objective": "mlm"}, "b": {"objective": "lm"}}},
}


@pytest.mark.parametrize(
    ("objective", "metrics", "entropy", "words"),
    [
        ("mlm", {"valid/mlm": 5.8}, 6.0, "the loss of mlm is not 5 % below .* 6.000"),
        ("mlm", {"valid/mlm": 5.6}, 6.0, ""),
        ("mlm", {"valid/mlm": 5.8, "tokens_scored": 9_999}, 6.0, ""),
        ("mlm", {"valid/mlm": 5.8, "tokens_scored": 10_000}, 6.0, "of mlm"),
        ("mlm", {"test/mlm": 5.8}, 6.0, ""),
        ("mlm", {"valid/mlm": 5.8}, 0.0, ""),
        ("electra", {"valid/generator": 6.1, "valid/mlm": 0.1}, 6.0, "electra"),
        ("infoword", {"valid/mlm": 6.1, "valid/infonce": 0.1}, 6.0, "infoword"),
        ("distill", {"valid/mlm": 6.1, "valid/soft": 0.1}, 6.0, "distill"),
        ("mix", {"valid/dae": 6.1}, 6.0, "mix"),
        ("joint", {"valid/a/mlm": 6.1, "valid/b/lm": 6.2}, 6.0, "joint"),
        ("joint", {"valid/a/mlm": 6.1, "valid/b/lm": 4.2}, 6.0, ""),
        ("mlm", {"train/mlm": 3.0, "valid/mlm": 6.1}, 6.0, "mlm"),
        ("cbow", {"valid/cbow": 6.1}, 6.0, ""),
        ("sequence_classification", {"valid/label": 0.1, "valid/lm": 6.1}, 6.0, ""),
        ("sequence_classification", {"valid/matthews": 0.0}, 6.0, "one class .*alone"),
        ("sequence_classification", {"test/matthews": 0.0}, 6.0, "one class .*alone"),
        ("token_classification", {"valid/matthews": 0.0}, 6.0, "one tag.* alone"),
        (
            "sequence_classification",
            {"valid/matthews": 0.0, "test/matthews": 0.6},
            6.0,
            "",
        ),
        ("sequence_classification", {"valid/matthews": 0.1}, 6.0, ""),
        ("sequence_classification", {"valid/accuracy": 0.5}, 6.0, ""),
    ],
)
def test_a_run_that_learnt_too_little_is_told(objective, metrics, entropy, words):
    made = make_objective(objective, **PARTS.get(objective, {}))
    found = learning_warnings(metrics, made, "valid", entropy)
    assert bool(found) == bool(words)
    for line in found:
        assert re.search(words, line)
        assert "train.steps or another optimizer.learning_rate" in line


@pytest.mark.parametrize(
    ("metrics", "entropy", "words"),
    [
        (
            {"valid/lm": 6.3, "train/lm": 4.0},
            6.26,
            "its loss of 6.30 is not below .* 6.26",
        ),
        ({"valid/lm": 5.4}, 6.26, "seen 512,000 tokens, .* 5.40 is 14 % below .* 6.26"),
        ({"train/lm": 5.4}, 6.26, "14 % below"),
        ({"valid/lm": 4.6}, 6.26, ""),
        ({"valid/lm": 5.4}, 0.0, ""),
        ({"valid/label": 5.4}, 6.26, ""),
    ],
)
def test_a_run_whose_text_makes_no_sense_yet_is_told(metrics, entropy, words):
    result = {"metrics": metrics, "token_entropy": entropy, "tokens_seen": 512_000}
    result["config"] = {"data": {"eval_split": "valid"}}
    found = writing_note(result, make_objective("lm"))
    assert re.search(words, found) if words else not found
