"""Tables of tasks: ties count their part, an oracle has 100 %, intervals, lengths."""

import math

import numpy as np
import pytest
from scipy import optimize, special, stats

from research.contract.scores import (
    ENERGY,
    LIKELIHOOD,
    MEANINGS,
    PSEUDO_LIKELIHOOD,
)
from research.evaluation.score_tables import (
    ALL,
    CHOICES,
    EQUAL_LENGTHS,
    LAST_WORDS,
    TEXTS,
    TIE,
    Item,
    _area,
    _tied,
    credit,
    table_lines,
)
from research.evaluation.score_tasks import TASKS
from research.evaluation.sentence_scores import Score


def item(number, gold=0, group="", size=2, text="a b"):
    return Item(f"f:{number}", group, (text,) * size, ("",) * size, gold)


def scored(value, tokens=4, size=16, best=None):
    return Score(value, tokens, size, 1, best)


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("meaning", MEANINGS)
def test_each_task_has_a_table_of_its_items_whatever_a_score_is(name, meaning):
    items = [item(n, gold=n % 2, group="ab"[n % 2]) for n in range(12)]
    scores = [[scored(-9.0 - n % 3, best=n > 3), scored(-9.5)] for n in range(12)]
    table = TASKS[name].judge.table(items, scores, meaning)
    assert {"items", "texts"} & table[ALL].keys()
    assert all(cells.keys() == table[ALL].keys() for cells in table.values())
    assert next(iter(table[ALL].values())).value == len(items)
    assert len(table_lines(table)) == 2 + len(table)


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_equal_scores_give_chance_and_an_oracle_all(size):
    items = [item(n, size=size) for n in range(60)]  # the right one is the first
    equal = [[scored(-7.25)] * size for _ in items]
    cells = CHOICES.table(items, equal, LIKELIHOOD)["all"]
    for name in ("sum", "per token", "per byte", "length alone"):
        assert cells[f"accuracy, {name}"].value == pytest.approx(1 / size, abs=1e-15)
    assert cells["chance"].value == pytest.approx(1 / size, abs=1e-15)
    assert cells["lengths differ"].value == 0
    items = [item(n, gold=n % size, size=size) for n in range(60)]
    oracle = [[scored(-1.0 - (n != i.gold)) for n in range(size)] for i in items]
    cells = CHOICES.table(items, oracle, LIKELIHOOD)["all"]
    accuracy = cells["accuracy, sum"]
    assert accuracy.value == 1 and 0.9 < accuracy.low < 1
    assert accuracy.high == pytest.approx(1)
    worst = [[scored(-2.0 + (n != i.gold)) for n in range(size)] for i in items]
    cells = CHOICES.table(items, worst, LIKELIHOOD)["all"]
    assert cells["accuracy, sum"].value == 0
    assert cells["accuracy, sum"].low == pytest.approx(0)


def test_pairs_of_equal_length_are_counted_apart():
    """The shorter text always wins; of equal lengths two of three are right."""
    short, long = scored(-1.0, tokens=3), scored(-2.0, tokens=4)
    low = scored(-2.0, tokens=3)
    pairs = [[long, short]] * 5 + [[short, low], [short, low], [low, short]]
    cells = CHOICES.table([item(n) for n in range(8)], pairs, LIKELIHOOD)["all"]
    assert cells["accuracy, sum"].value == 2 / 8
    assert cells[EQUAL_LENGTHS].value == pytest.approx(2 / 3)
    assert cells["lengths differ"].value == 5 / 8
    cells = CHOICES.table([item(0)], [[long, short]], LIKELIHOOD)["all"]
    assert math.isnan(cells[EQUAL_LENGTHS].value)
    assert table_lines({"all": cells})[-1].endswith("| – |")


def test_scores_within_float32_rounding_are_equal_and_others_are_not():
    for gold in (0, 1):
        assert credit([-40.0, -40.0 * (1 + 1e-6)], gold) == 0.5
        assert credit([-40.0, -40.0 * (1 + 1e-3)], gold) == 1 - gold
        assert credit([0.0, 0.0], gold) == 0.5
    assert credit([-1.0, -1.0, -2.0], 2) == 0


def test_groups_and_the_length_alone():
    items = [item(0, group="a"), item(1, group="a"), item(2, group="b")]
    shorter = [scored(-9.0, tokens=3, size=20), scored(-10.0, tokens=4, size=16)]
    table = CHOICES.table(items, [shorter, shorter[::-1], shorter], LIKELIHOOD)
    assert list(table) == ["a", "b", "all"]
    alone = CHOICES.table(items[:2], [shorter, shorter[::-1]], LIKELIHOOD)
    assert repr(alone) == repr({"a": table["a"], "all": table["a"]})
    a, b = table["a"], table["b"]
    assert a["items"].value == 2 and a["lengths differ"].value == 1
    assert a["accuracy, sum"].value == a["accuracy, length alone"].value == 0.5
    assert b["accuracy, sum"].value == b["accuracy, length alone"].value == 1
    assert b["accuracy, per token"].value == 0  # -3 a token is less than -2.5
    assert b["accuracy, per byte"].value == 1
    assert table["all"]["accuracy, sum"].value == pytest.approx(2 / 3)
    lines = table_lines(table)
    assert len(lines) == 5 and "66.7 % [20.8, 93.9]" in lines[-1]  # Wilson's


def test_last_words_are_named_by_what_the_score_is():
    items = [item(n, size=1) for n in range(4)]
    scores = [[scored(-float(n), best=n < 1)] for n in range(4)]
    cells = LAST_WORDS.table(items, scores, LIKELIHOOD)["all"]
    assert cells["accuracy"].value == 0.25
    perplexity = cells["perplexity"]
    assert perplexity.value == pytest.approx(math.exp(1.5))
    assert perplexity.low < perplexity.value < perplexity.high
    cells = LAST_WORDS.table(items, scores, PSEUDO_LIKELIHOOD)["all"]
    assert {"fill-in accuracy", "pseudo-perplexity"} < cells.keys()
    cells = LAST_WORDS.table(items, scores, ENERGY)["all"]
    assert cells.keys() == {"items", "held for the original", "score a word"}


def test_texts_have_perplexities_and_labels_an_area():
    items = [item(n, gold=int(n >= 10), size=1) for n in range(20)]
    tokens = [3 + n % 2 for n in range(20)]
    scores = [
        [scored(-float(t) * (1 if n >= 10 else 2), tokens=t, size=8)]
        for n, t in enumerate(tokens)
    ]
    cells = TEXTS.table(items, scores, LIKELIHOOD)["all"]
    per_token = sum(s.log_prob for (s,) in scores) / sum(tokens)
    assert cells["perplexity a token"].value == pytest.approx(math.exp(-per_token))
    total = sum(s.log_prob for (s,) in scores)
    assert cells["perplexity a word"].value == pytest.approx(math.exp(-total / 40))
    assert cells["bits a byte"].value == pytest.approx(-total / 160 / math.log(2))
    cells_of_pseudo = TEXTS.table(items, scores, PSEUDO_LIKELIHOOD)["all"]
    assert cells_of_pseudo["pseudo-bits a byte"] == cells["bits a byte"]
    assert {"bits a byte", "perplexity a word"}.isdisjoint(cells_of_pseudo)
    assert cells["AUC, per token"].value == 1
    assert cells["AUC, length alone"].value == pytest.approx(0.5)
    area = cells["AUC, length alone"]
    assert area.low < area.value < area.high
    assert "perplexity a token" not in TEXTS.table(items, scores, ENERGY)["all"]
    unlabelled = [each._replace(gold=-1) for each in items]
    cells = TEXTS.table(unlabelled, scores, LIKELIHOOD)["all"]
    assert not any(name.startswith("AUC") for name in cells)


def test_the_area_counts_equal_scores_half():
    items = [item(n, gold=n % 2, size=1) for n in range(10)]
    scores = [[scored(-40.0 * (1 + 1e-7 * n))] for n in np.arange(10)]
    assert TEXTS.table(items, scores, ENERGY)["all"]["AUC, sum"].value == 0.5


def test_scores_that_are_dense_keep_their_order():
    """100,001 texts: neighbours are within the rounding, the ends are a half apart."""
    values = np.linspace(-1.5, -1, 100_001)
    tied = _tied(values)
    assert (np.diff(tied) >= 0).all() and (tied <= values).all()
    assert (values - tied <= TIE * np.abs(tied)).all()
    assert (np.diff(np.unique(tied)) > TIE).all()
    order = np.random.default_rng(0).permutation(len(values))
    assert (_tied(values[order]) == tied[order]).all()


@pytest.mark.parametrize("rare", [0, 1])
def test_an_area_of_a_rare_label_has_an_interval(rare):
    """Of five texts and more; not where scores tell all texts apart."""
    items = [item(n, gold=rare if n < 5 else 1 - rare, size=1) for n in range(40)]
    scores = [[scored(-10.0 - n % 7)] for n in range(40)]
    area = TEXTS.table(items, scores, LIKELIHOOD)["all"]["AUC, sum"]
    assert 0 < area.low < area.value < area.high < 1
    few = items[1:], scores[1:]
    area = TEXTS.table(*few, LIKELIHOOD)["all"]["AUC, sum"]
    assert 0 < area.value < 1 and math.isnan(area.low) and math.isnan(area.high)
    assert table_lines({"all": {"AUC, sum": area}})[-1].endswith(" % |")
    apart = [[scored(-float(each.gold))] for each in items]
    area = TEXTS.table(items, apart, LIKELIHOOD)["all"]["AUC, sum"]
    assert area.value == 0 and math.isnan(area.low) and math.isnan(area.high)


@pytest.mark.parametrize("rare", [0, 1])
def test_intervals_of_an_area_contain_it(rare):
    """95 +- 2 % of 1000 sets of texts with normal scores, five of them of a rare label.

    Over areas of 0.6, 0.8 and 0.95, 5, 10 and 50 texts of a label and 100 of the other
    it is 92 to 96 %, each of 2000 sets; of percentiles of a bootstrap within labels, 70
    to 92 % at five and ten texts.
    """
    rng, covered = np.random.default_rng(0), 0
    gold = np.where(np.arange(45) < 5, rare, 1 - rare)
    distance = math.sqrt(2) * stats.norm.ppf(0.7)  # of normal scores whose area is 0.7
    for _ in range(1000):
        area = _area(gold, rng.normal(size=45) + distance * gold - 9)
        covered += area.low <= 0.7 <= area.high
    assert 930 <= covered <= 970


def test_the_area_and_its_interval_are_those_of_brunner_and_munzel():
    """scipy's test of an area of a half has the same error and degrees of freedom."""
    rng = np.random.default_rng(1)
    gold = rng.permutation(np.repeat([0, 1], [30, 12]))
    values = np.round(rng.normal(size=42) + gold, 1) - 5  # with ties
    area = _area(gold, values)
    groups = values[gold == 1], values[gold == 0]
    value = stats.mannwhitneyu(*groups).statistic / (30 * 12)
    assert area.value == pytest.approx(value)
    statistic, p = stats.brunnermunzel(groups[1], groups[0])
    error = (value - 0.5) / statistic
    freedom = optimize.brentq(lambda df: 2 * stats.t.sf(statistic, df) - p, 5, 50)
    low, high = special.logit([area.low, area.high])
    assert (low + high) / 2 == pytest.approx(special.logit(value))
    t = (high - low) / 2 * value * (1 - value) / error
    assert t == pytest.approx(stats.t.ppf(0.975, freedom))
