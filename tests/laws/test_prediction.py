"""The contract of every kind of predictions, found by listing the folder."""

import json

import numpy as np
import pytest
from etils import epath

from launch.commands import evaluate
from research.config.config import Config
from research.evaluation.items import item_margins, score_predictions
from research.evaluation.prediction_files import write_predictions
from research.metrics import all_metrics, metrics_of, values_of
from research.predictions import FOLDER, prediction_kind
from research.use.inference.open_run import open_run
from research.use.inference.predict import Predictor
from tests.testing.prediction_cases import cases, task_config, write_files
from tests.testing.tiny_runs import save_untrained

each_kind = pytest.mark.parametrize("kind", FOLDER.names())


def test_each_kind_has_metrics_and_a_case():
    """A kind without a case has no oracle; a metric of no kind measures nothing."""
    missing = {*FOLDER.names()} - cases().keys()
    assert not missing, f"give tests/testing/prediction_cases/ a CASE of {missing}"
    assert not cases().keys() - {*FOLDER.names()}
    assert all(metrics_of(kind) for kind in FOLDER.names())
    assert {kind for m in all_metrics() for kind in m.kinds} <= {*FOLDER.names()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("tasks"))


@each_kind
def test_an_oracle_has_every_item_right(kind, folder, tmp_path):
    """Each item is of its document, and all metrics have their best value."""
    case = cases()[kind]
    objective, data = case.open(folder)
    assert objective.predicts == kind
    batches = case.predict(data)
    scores = score_predictions(objective, batches, data)
    documents = [*data.documents()]
    assert [item.id for item in scores.items] == [each.id for each in documents]
    values = values_of(kind)
    assert scores.metrics.keys() == values.keys()
    for name, value in values.items():
        best = value.most if value.sign == 1 else value.least
        assert scores.metrics[name] == pytest.approx(best, abs=1e-5), name
    for item in scores.items:
        assert (item.gold is None) == (item.score is None)
        assert item.score is None or item.score == pytest.approx(case.best, abs=1e-9)
    path = epath.Path(tmp_path / "new" / "valid.jsonl")
    write_predictions(path, scores.items)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line, item, document in zip(lines, scores.items, documents, strict=True):
        assert "\n ".join(line["texts"]).split() == document.text.split()
        assert len(line["texts"]) == len(document.starts) + 1
        expected = item._asdict() | dict(item.details) | {"texts": [*item.texts]}
        assert expected.pop("details") == item.details
        assert line == expected


@each_kind
def test_items_do_not_depend_on_batches_and_others_are_worse(kind, folder):
    case = cases()[kind]
    objective, data = case.open(folder)
    batches = case.predict(data)
    whole = {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}
    scores = score_predictions(objective, batches, data)
    assert score_predictions(objective, [whole], data) == scores
    margins = item_margins(scores.items, objective, data)
    assert margins.keys() <= scores.metrics.keys() and margins
    assert all(margin >= 0 for margin in margins.values())
    moved = {name: np.roll(array, 1, axis=0) for name, array in whole.items()}
    if not case.gold and "context" not in whole:  # whose rows name positions
        worse = score_predictions(objective, [moved], data)
        for name, value in values_of(kind).items():
            assert value.sign * worse.metrics[name] < value.sign * scores.metrics[name]


@each_kind
def test_an_item_without_gold_is_not_measured(kind, folder):
    case = cases()[kind]
    objective, data = case.open(folder)
    items = score_predictions(objective, case.predict(data), data).items
    known = [item for item in items if item.gold is not None]
    more = [*known, *[item._replace(gold=None, score=None) for item in known]]
    margins = [item_margins(found, objective, data) for found in (known, more)]
    assert margins[0] == margins[1]
    assert item_margins(known[:1], objective, data) == {}


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", [name for name in FOLDER.names() if prediction_kind(name).of_texts]
)
def test_new_texts_are_predicted_as_in_an_evaluation(kind, folder, tmp_path):
    case = cases()[kind]
    fields = {**case.fields, **case.new_text_fields}
    config = task_config(folder, case.objective, case.file, case.keys, **fields)
    config.optimizer.warmup_steps = 2
    workdir, *_ = save_untrained(tmp_path / "run", Config.of(config))
    evaluate.run(evaluate.parser().parse_args([f"--workdir={workdir}"]))
    (path,) = workdir.glob("evaluations/*/predictions.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    items = Predictor(open_run(workdir)).predict_file(str(folder / case.file))
    assert [item.id for item in items] == [line["id"] for line in lines]
    for item, line in zip(items, lines, strict=True):
        for name in ("prediction", "gold", "score"):
            is_number = isinstance(line[name], float)
            expected = pytest.approx(line[name], 1e-4) if is_number else line[name]
            assert getattr(item, name) == expected
