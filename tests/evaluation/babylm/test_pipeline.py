"""Scores, files and fits are those of BabyLM's pipeline, on an invented mini set."""

import json
import math

import numpy as np
import pytest
from etils import epath

from launch import glue
from research.evaluation.babylm.acquisition import read_children, score_acquisition
from research.evaluation.babylm.backends import Candidate
from research.evaluation.babylm.rules import (
    RULES,
    TRACKS,
    checkpoint_name,
    checkpoint_words,
)
from research.evaluation.babylm.tasks import TASKS
from research.evaluation.babylm.tasks.reading import Task as Reading
from research.evaluation.prediction_files import write_predictions
from research.metrics import Item
from tests.testing.babylm_golden import (
    CASES,
    assert_equal,
    golden,
    make_judge,
    write_golden,
)

TOLERANCE = 1e-4
"""Of the sums of a text; the pipeline's are float32."""
ROUNDED = 1e-3
"""Two candidates that are nearer than this may change places by rounding."""


NEWEST = "babylm_2026"
"""The rules by which `make test` scores with each backend; older ones it holds to the
first."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_golden(tmp_path_factory.mktemp("babylm"))


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def case(request, folder):
    """(model, backend, judge)."""
    return *request.param, make_judge(folder, *request.param)


def tasks_of(rules):
    """Dataset -> task, of those with candidates."""
    tasks = (TASKS.part_class(name, "")() for name in TASKS.names())
    return {
        task.full: task
        for task in tasks
        if rules in task.rules and hasattr(task, "scores")
    }


def test_tokens(case):
    model, backend, judge = case
    for row in golden()["tokens"][f"{model}|{backend}"]:
        text = Candidate(row["text"], row["text"])
        np.testing.assert_allclose(
            judge.token_log_probs(text), row["log_probs"], atol=3e-5, rtol=0
        )


@pytest.mark.parametrize(
    ("case", "rules"),
    [
        pytest.param(c, r, marks=[pytest.mark.long] * (c != CASES[0] and r != NEWEST))
        for c in CASES
        for r in RULES
    ],
    indirect=["case"],
)
def test_candidates_and_files(case, rules, folder, tmp_path):
    model, backend, judge = case
    for dataset, task in tasks_of(rules).items():
        data = folder / "evaluation_data/full_eval" / dataset
        items = task.read(data, RULES[rules])
        rows = golden()["zero_shot"][rules][f"{model}|{backend}|{dataset}"]
        expected = {json.dumps(row["texts"]): row for row in rows}
        assert len(items) == len(rows)
        margins = []
        for item, scores in zip(items, task.scores(judge, items), strict=True):
            texts = [
                [getattr(c, n) for c in item.candidates] for n in ("text", "completion")
            ]
            row = expected[json.dumps(texts)]
            assert item.label == row["label"]
            known = row["scores"]  # of a WUG row with enc_dec_prefix it has only one
            np.testing.assert_allclose(
                scores[: len(known)], known, atol=TOLERANCE, rtol=0
            )
            margins.append(abs(np.diff(sorted(scores)[-2:])[0]))
        result = task.evaluate(judge, data, tmp_path, RULES[rules])
        assert result.low <= result.value <= result.high or math.isnan(result.low)
        name = f"{rules}/{model}/main/{task.results_folder(backend, dataset)}"
        if min(margins) < ROUNDED or name not in golden()["reports"]:
            continue
        report, predictions = golden()["reports"][name]
        ours = (tmp_path / "best_temperature_report.txt").read_text()
        assert sorted(ours.splitlines()) == sorted(report.splitlines())
        ours = json.loads((tmp_path / "predictions.json").read_text())
        assert_equal(ours, json.loads(predictions))


def test_reading(case, folder, tmp_path):
    model, backend, judge = case
    task = Reading()
    at = task.results_folder(backend, "")
    expected = golden()["reading"][f"{model}|{at.split('/')[1]}"]
    data = folder / "evaluation_data/full_eval/reading"
    task.evaluate(judge, data, tmp_path, RULES["babylm_2026"])
    for name, text in expected.items():
        ours = (tmp_path / name).read_text()
        if name.endswith(".txt"):
            assert ours == text
        else:
            for line, own in zip(text.splitlines(), ours.splitlines(), strict=True):
                assert_equal(json.loads(own), json.loads(line))


def test_surprisals_of_words(case):
    model, backend, judge = case
    rows = golden()["more"]["surprisals"][f"aoa_surprisal|{model}|{backend}"]
    texts = [
        Candidate(f"{context} {word}", word, f"{context} ") for word, context, _ in rows
    ]
    ours = [-score.total for score in judge.log_probs(texts)]
    np.testing.assert_allclose(ours, [row[2] for row in rows], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("rules", RULES)
def test_ages(folder, rules):
    more = golden()["more"][rules]
    children = read_children(folder / "evaluation_data/full_eval/aoa/cdi_human.csv")
    name = "aoa_fit_vocab16384_one_piece" if rules == "babylm_2026" else "aoa_fit"
    expected = more[name]
    ours = score_acquisition(
        more["aoa_curves"], children, RULES[rules], lambda word: math.log(16384)
    )
    assert ours.words == tuple(expected["valid_words"])
    assert ours.score == pytest.approx(expected["curve_fitness"], abs=1e-6)
    np.testing.assert_allclose(ours.model, expected["model_aoas"], atol=1e-6)
    np.testing.assert_allclose(ours.child, expected["child_aoas"], atol=1e-6)


def test_a_small_vocabulary_leaves_too_few_words(folder):
    judge = make_judge(folder, "tiny-gpt2", "causal")
    more, size = golden()["more"]["babylm_2026"], math.log(judge.vocab_size)
    children = read_children(folder / "evaluation_data/full_eval/aoa/cdi_human.csv")
    ours = score_acquisition(
        more["aoa_curves"],
        children,
        RULES["babylm_2026"],
        lambda word: judge.num_pieces(word) * size,
    )
    assert (ours.score, len(ours.words)) == (0, more["aoa_fit"]["n_words"])


def test_a_row_ends_with_a_line_feed_alone(tmp_path):
    """Not with a line separator in a text (wbolster/jsonlines #53)."""
    text = "One.\u2028Two.\x85Three."
    row = {"sentence_good": text, "sentence_bad": "", "field": "", "UID": ""}
    row |= {"linguistics_term": ""}
    (tmp_path / "a.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n")
    (item,) = tasks_of("babylm_2026")["blimp_filtered"].read(tmp_path, None)
    assert item.shown[0] == text
    item = Item("valid:1", "1", "0", 0.0, (text,))
    write_predictions(epath.Path(tmp_path / "valid.jsonl"), [item])
    assert glue._read_predictions(tmp_path / "valid.jsonl") == [(1, 0)]


def test_names_of_checkpoints():
    for track, most in TRACKS.items():
        ours = [checkpoint_name(words) for words in checkpoint_words(most * 10**6)]
        assert ours == golden()["more"]["names"][f"steps_{track}"]
