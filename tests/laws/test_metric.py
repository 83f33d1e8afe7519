"""The contract of every metric; modules are found by listing the folder."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from research.contract.fields import check
from research.metrics import (
    HIGHER,
    LOWER,
    METRICS,
    Item,
    all_metrics,
    measure,
    metrics_of,
    signs,
    values_of,
)
from research.predictions import FOLDER
from tests.testing.prediction_cases import cases

RNG = np.random.default_rng


def _kinds(name):
    cls = METRICS.part_class(name, "metric")
    return [kind for kind in KINDS if any(type(m) is cls for m in metrics_of(kind))]


KINDS = FOLDER.names()
each_kind = pytest.mark.parametrize(
    "kind",
    KINDS,
    ids=[
        "-".join([kind, *(name for name in METRICS.names() if kind in _kinds(name))])
        for kind in KINDS
    ],
)


def _items(kind, predictions, golds):
    score, as_gold = cases()[kind].score, cases()[kind].as_gold
    pairs = enumerate(zip(predictions, map(as_gold, golds), strict=True))
    return [Item(str(n), *pair, score(*pair)) for n, pair in pairs]


def _random_items(kind, seed):
    """Twenty items, and the same with right predictions."""
    rng, draw = RNG(seed), cases()[kind].draw
    golds = [cases()[kind].gold] * 20 if cases()[kind].gold else draw(rng, 20)
    return _items(kind, draw(rng, 20), golds), _items(kind, golds, golds)


@pytest.mark.parametrize("name", METRICS.names())
def test_each_module_has_a_metric_that_says_what_its_values_are(name):
    cls = METRICS.part_class(name, "metric")
    assert dataclasses.is_dataclass(cls) and not dataclasses.fields(cls)
    check(cls())
    assert cls.values
    for value in cls.values:
        assert value.better in (HIGHER, LOWER) and value.least < value.most


@pytest.mark.parametrize("name", METRICS.names())
def test_its_name_selects_the_laws_of_its_kinds(name):
    """By `pytest -k NAME`, as CONTRIBUTING.md says."""
    (mark,) = test_a_mean_of_scores_is_one.pytestmark
    ids = dict(zip(mark.args[1], mark.kwargs["ids"], strict=True))
    assert all(name in ids[kind] for kind in _kinds(name))


def test_values_of_one_name_agree_in_what_is_better():
    for metric in all_metrics():
        for value in metric.values:
            assert signs()[value.name] == value.sign, value.name


@each_kind
def test_it_measures_the_values_that_it_says_within_their_bounds(kind):
    for seed in range(5):
        found, _ = _random_items(kind, seed)
        scores = measure(kind, found, cases()[kind].labels)
        values = values_of(kind)
        always = {name for name, value in values.items() if not value.undefined}
        assert always <= scores.keys() <= values.keys()
        for name, score in scores.items():
            assert values[name].least <= score <= values[name].most, name


@each_kind
def test_no_value_is_better_than_that_of_right_predictions(kind):
    for seed in range(5):
        scores, best = (
            measure(kind, found, cases()[kind].labels)
            for found in _random_items(kind, seed)
        )
        for name, value in values_of(kind).items():
            assert value.sign * scores[name] < value.sign * best[name], name


@each_kind
def test_a_mean_of_scores_is_one(kind):
    found, _ = _random_items(kind, 0)
    mean = np.mean([item.score for item in found])
    scores = measure(kind, found, cases()[kind].labels)
    for name, value in values_of(kind).items():
        if value.mean_of_scores:
            assert scores[name] == pytest.approx(mean), name


@each_kind
def test_one_prediction_for_all_has_the_value_that_it_says(kind):
    case = cases()[kind]
    constant = case.draw(RNG(0), 1)[0] if case.constant is None else case.constant
    golds = [case.gold] * 20 if case.gold else case.draw(RNG(1), 20)
    scores = measure(kind, _items(kind, [constant] * 20, golds), case.labels)
    for name, value in values_of(kind).items():
        if value.constant is not None:
            assert scores[name] == value.constant


@each_kind
@pytest.mark.filterwarnings("ignore:A single label was found")
def test_what_is_not_defined_for_constants_is_left_out_and_said(kind):
    case = cases()[kind]
    constant = case.draw(RNG(0), 1)[0] if case.constant is None else case.constant
    found = _items(kind, [constant] * 3, [constant] * 3)
    scores = measure(kind, found, case.labels)
    undefined = {name for name, value in values_of(kind).items() if value.undefined}
    assert values_of(kind).keys() - scores.keys() == undefined


def test_no_library_is_imported_before_it_measures():
    code = (
        "import sys; from research import metrics; metrics.signs(); "
        "print({name.partition('.')[0] for name in sys.modules} & "
        "{'jax', 'sklearn', 'scipy', 'seqeval', 'sacrebleu', 'rouge_score'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr
