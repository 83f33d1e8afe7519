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
    signs,
    squad,
    values_of,
)

RNG = np.random.default_rng
LABELS = ("a", "b", "c")
TAGS = ("O", "B-x", "I-x", "B-y")
WORDS = ("the", "cat", "sat", "on", "a", "mat")


def _texts(rng, count):
    return [" ".join(rng.choice(WORDS, rng.integers(1, 7))) for _ in range(count)]


def _right(prediction, gold):
    return float(prediction == gold)


def _span_score(prediction, gold):
    return squad.f1(prediction, gold)


DRAWS = {
    "class": (lambda rng, n: rng.choice(LABELS, n).tolist(), _right),
    "choice": (lambda rng, n: rng.choice(LABELS, n).tolist(), _right),
    "set": (
        lambda rng, n: [[x for x in LABELS if rng.random() < 0.5] for _ in range(n)],
        _right,
    ),
    "number": (lambda rng, n: rng.normal(size=n).tolist(), _right),
    "tags": (lambda rng, n: [rng.choice(TAGS, 6).tolist() for _ in range(n)], _right),
    "span": (_texts, _span_score),
    "text": (_texts, _right),
    "ranks": (
        lambda rng, n: rng.integers(1, 30, (n, 2)).tolist(),
        lambda ranks, gold: float(np.mean([1 / rank for rank in ranks])),
    ),
}
"""Kind of predictions -> random ones, and an item's score."""

ONE_GOLD = {"ranks": [1.0, 1.0]}
"""Kind -> the right prediction, where all items have the same."""


def _labels(kind):
    return TAGS if kind == "tags" else LABELS


def _labels(kind):
    return TAGS if kind == "tags" else LABELS


def _kinds(name):
    return METRICS.part_class(name, "metric").kinds


KINDS = sorted({kind for metric in all_metrics() for kind in metric.kinds})
each_kind = pytest.mark.parametrize(
    "kind",
    KINDS,
    ids=[
        "-".join([kind, *(name for name in METRICS.names() if kind in _kinds(name))])
        for kind in KINDS
    ],
)


def _items(kind, predictions, golds):
    score = DRAWS[kind][1]
    if kind == "span":
        golds = [[gold] for gold in golds]
    pairs = enumerate(zip(predictions, golds, strict=True))
    return [Item(str(n), *pair, score(*pair)) for n, pair in pairs]


def _random_items(kind, seed):
    """Twenty items, and the same with right predictions."""
    rng, draw = RNG(seed), DRAWS[kind][0]
    golds = [ONE_GOLD[kind]] * 20 if kind in ONE_GOLD else draw(rng, 20)
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
        scores = measure(kind, found, _labels(kind))
        values = values_of(kind)
        always = {name for name, value in values.items() if not value.undefined}
        assert always <= scores.keys() <= values.keys()
        for name, score in scores.items():
            assert values[name].least <= score <= values[name].most, name


@each_kind
def test_no_value_is_better_than_that_of_right_predictions(kind):
    for seed in range(5):
        scores, best = (
            measure(kind, found, _labels(kind)) for found in _random_items(kind, seed)
        )
        for name, value in values_of(kind).items():
            assert value.sign * scores[name] < value.sign * best[name], name


@each_kind
def test_a_mean_of_scores_is_one(kind):
    found, _ = _random_items(kind, 0)
    mean = np.mean([item.score for item in found])
    for name, value in values_of(kind).items():
        if value.mean_of_scores:
            assert measure(kind, found, _labels(kind))[name] == pytest.approx(mean), (
                name
            )


@each_kind
@pytest.mark.filterwarnings("ignore:A single label was found")
def test_what_is_not_defined_for_constants_is_left_out_and_said(kind):
    constant = {"tags": ["O"] * 6, "text": "!"}.get(kind, DRAWS[kind][0](RNG(0), 1)[0])
    scores = measure(kind, _items(kind, [constant] * 3, [constant] * 3), _labels(kind))
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
