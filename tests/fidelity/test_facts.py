"""Every published experiment is held to its official values."""

import dataclasses

import pytest

from experiments.studies import fidelity
from tests.fidelity import statistics, table
from tests.fidelity.guards.registry import GUARDS

each_system = pytest.mark.parametrize("name", table.system_names())
SYSTEMS = [table.load(name) for name in table.system_names()]


def rows_of(kind):
    rows = [(system, *row) for system in SYSTEMS for row in system.rows[kind]]
    ids = [f"{system.name}: {name}" for system, name, *_ in rows]
    return pytest.mark.parametrize(
        ("system", "name", "value", "by", "_"), rows, ids=ids
    )


def test_every_published_experiment_has_facts():
    assert set(table.system_names()) == set(table.published_experiments())


@each_system
def test_its_rows_hold(name):
    assert table.problems(table.load(name)) == []


@pytest.mark.parametrize(
    ("kind", "row", "line"),
    [
        ("equal", ("train.batch", 32, "paper 1"), "train.batch is 64, officially 32"),
        ("departs", ("train.batch", 64, "paper 1", "why"), "move it to equal"),
        ("open", ("train.batch", 64, "paper 1"), "move it to equal"),
        ("departs", ("train.batch", 32, "paper 1", ""), "gives no reason"),
        ("equal", ("train.batch", 64, ""), "names no source"),
        ("equal", ("train.batch", 64, "hearsay"), "names no source"),
        ("equal", ("train.beach", 64, "paper 1"), "train.beach is not a config key"),
        ("unmodelled", ("train.batch", 64, "paper 1", ""), "is a config key"),
        ("equal", ("model.layers", 12, "paper 1"), "model.layers has two rows"),
        ("equal", (), "train.batch has no row"),
        ("equal", (), "train.batch is set to 64, but has no row"),
    ],
)
def test_a_row_that_does_not_hold_is_reported(kind, row, line):
    gpt = table.load("gpt")
    rows = dict(gpt.rows)
    rows["equal"] = tuple(r for r in rows["equal"] if r[0] != "train.batch")
    rows[kind] += (row,) if row else ()
    problems = table.problems(dataclasses.replace(gpt, rows=rows))
    assert any(line in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("system", "row"),
    [
        pytest.param(system, row, id=f"{system.name}: {row[0]}")
        for system in SYSTEMS
        for row in system.rows["unmodelled"]
    ],
)
def test_a_guard_finds_in_our_code_what_a_row_says(system, row):
    name, official, _, ours = row
    found = GUARDS[name](system)
    assert table.agrees(found, official if ours == table.SAME else ours), found
    assert ours == table.SAME or not table.agrees(ours, official)


@each_system
def test_its_docstring_names_each_departure_and_no_other(name):
    system = table.load(name)
    differing = table.differing_rows(system)
    assert sorted(table.said_to_differ(system) or []) == sorted(differing)


@rows_of("measured")
def test_a_statistic_of_our_batches_is_the_official_rules(system, name, value, by, _):
    ours, official = statistics.STATISTICS[name](system)
    assert statistics.within(official, value, by)
    assert statistics.within(ours, official, by)


@rows_of("apart")
def test_a_statistic_that_is_to_be_repaired_is_apart(system, name, value, by, _):
    ours, official = statistics.STATISTICS[name](system)
    assert statistics.within(official, value, by)
    assert not statistics.within(ours, official, by), "repaired: move it to measured"


def test_the_page_is_up_to_date():
    assert fidelity.PAGE.read_text() == fidelity.page()
