"""Specials are neither chosen nor drawn, but where a system's released code does so.

A text that is read alone has the specials of the rows of its objective.
"""

import contextlib
import dataclasses

import numpy as np
import pytest

from launch.config import load_config
from research import objectives
from research.contract.fields import check_values, choice, number
from research.objectives.mlm import mlm
from tests.fidelity import table
from tests.test_experiments import FOLDER, NAMES
from tests.testing import objective_cases
from tests.testing.example_batches import keys
from tests.testing.objective_cases import (
    VOCAB,
    input_prefixes,
    make_batch,
    make_example,
    make_objective,
)
from tests.testing.objective_variants import IMAGES

SPECIALS = ("candidates", "random_tokens")
"""Fields that are "all" where specials are chosen, or drawn."""

NOISE = {"mask_fraction": 0.0, "random_fraction": 1.0}


def fields_that_allow(cls: type, values: dict) -> list[str]:
    """The names among `values` of which a class has a field that may have that value:
    a subclass may narrow what its base allows."""
    found = []
    for field in dataclasses.fields(cls):
        if field.name in values:
            with contextlib.suppress(ValueError):
                check_values([field], values)
                found.append(field.name)
    return found


CLASSES = {name: objectives.objective_class(name) for name in objectives.names()}
CASES = [
    (name, field)
    for name, cls in CLASSES.items()
    if len(fields_that_allow(cls, NOISE)) == len(NOISE)
    for field in fields_that_allow(cls, dict.fromkeys(SPECIALS, "all"))
]
NAMES_WITH_NOISE = sorted({name for name, _ in CASES})
LENGTH = 24


def values(section, field: str) -> set:
    """The values of a field in an objective's config and in those of its parts."""
    inner = [part for part in section.values() if isinstance(part, dict)]
    own = {section[field]} if field in section else set()
    return own.union(*(values(part, field) for part in inner))


@pytest.mark.parametrize("field", SPECIALS)
def test_systems_whose_facts_say_so_alone_choose_or_draw_specials(field):
    found = {
        name: values(load_config(str(FOLDER / f"{name}.py")).values["objective"], field)
        for name in NAMES
    }
    facts = {name: table.load(name).rows["equal"] for name in table.system_names()}
    declared = {
        name
        for name, rows in facts.items()
        for key, value, *_ in rows
        if key.endswith(f".{field}") and value == "all"
    }
    assert {name for name in NAMES if "all" in found[name]} == declared


def corrupt(name: str, random_fraction: float, **fields) -> tuple[float, np.ndarray]:
    """Of texts with separators: the fraction of targets, and [B, L] bool: the tokens,
    that are special where none becomes a mask."""
    fields |= NOISE | {"random_fraction": random_fraction}
    fields |= IMAGES if "images" in CLASSES[name].__dataclass_fields__ else {}
    objective = objectives.make_objective(name, **fields)
    example = make_example(objective, LENGTH, [99] * 200, separators=0.1)
    batch = objective.corrupt(example, keys(200), VOCAB, LENGTH)
    chosen = batch["target"][batch["weight"] > 0]
    if name == "unilm":  # the end of a target may be chosen (Dong et al. 2019, 2.3)
        chosen = chosen[chosen != VOCAB.eos_id]
    tokens = [batch[key] for key in ("token", "encoder_token") if key in batch]
    return VOCAB.is_special[chosen].mean(), VOCAB.is_special[tokens[0]]


@pytest.mark.parametrize("name", NAMES_WITH_NOISE)
def test_specials_are_neither_chosen_nor_drawn(name):
    chosen, special = corrupt(name, 1.0)
    assert chosen == 0
    assert not (special & ~corrupt(name, 0.0)[1]).any()


@dataclasses.dataclass(frozen=True)
class Narrow(mlm.Objective):
    """Masked LM without random tokens and without chosen specials."""

    candidates: str = choice("ordinary", ("ordinary",))
    random_fraction: float = number(0.0, least=0, most=0)


def test_a_subclass_may_narrow_what_the_law_asks_for():
    every = dict.fromkeys(SPECIALS, "all") | NOISE
    whole = {"candidates", "random_tokens", "mask_fraction", "random_fraction"}
    assert {*fields_that_allow(mlm.Objective, every)} == whole
    assert {*fields_that_allow(Narrow, every)} == {"random_tokens", "mask_fraction"}


@pytest.mark.parametrize(("name", "field"), CASES)
def test_the_exceptions_choose_or_draw_them(name, field):
    chosen, special = corrupt(name, 1.0, **{field: "all"})
    if field == "candidates":
        assert 0.05 < chosen < 0.3, (
            'candidates "all" chooses no specials; if none shall be chosen, narrow the '
            'field: candidates: str = choice("ordinary", ("ordinary",))'
        )
    else:
        assert chosen == 0 and (special & ~corrupt(name, 0.0)[1]).any()


READ_FORWARD = [
    case
    for case in objective_cases.CASES
    if case.values[0] != "visual"  # whose texts are captions of images
    and not make_objective(*case.values).reads_backward
]


def rows_of(objective) -> list[list[tuple[int, int]]]:
    """Tokens and their types of rows, of the encoder if there is one."""
    _, batch = make_batch(objective, 37, [99] * 40, separators=0.3)
    prefixes = input_prefixes(batch)
    encoders = [prefix for prefix in prefixes if prefix.endswith("encoder_")]
    return [
        [*zip(batch[f"{prefix}token"][n].tolist(), types[n].tolist(), strict=True)]
        for prefix in encoders or prefixes
        for types in [batch[f"{prefix}token_type"]]
        for n in range(40)
    ]


def is_text(token: int) -> bool:
    return token not in (VOCAB.bos_id, VOCAB.eos_id, VOCAB.pad_id)


@pytest.mark.parametrize(("name", "fields"), READ_FORWARD)
def test_a_text_is_read_alone_with_the_specials_of_rows(name, fields):
    """A row begins with what is read before a text, and in a row text is followed by
    what is read after it, in these token types."""
    objective = make_objective(name, fields)
    rows = rows_of(objective)
    before, after, token_type, last_type, *_ = objective.specials(VOCAB)

    def is_there(row, at, tokens):
        part = row[at : at + len(tokens)]
        return [token for token, _ in part] == [*tokens]

    def has_text(row, at):
        return at < len(row) and is_text(row[at][0])

    assert any(
        is_there(row, 0, before)
        and has_text(row, len(before))
        and {own for _, own in row[: len(before) + 1]} == {token_type}
        for row in rows
    ), f"no row begins with {before} and then text, of token type {token_type}"
    last = max(token_type, last_type)
    assert any(
        has_text(row, at)
        and is_there(row, at + 1, after)
        and row[at + len(after)][1] == last
        for row in rows
        for at in range(len(row) - len(after))
    ), f"no row has text and then {after}, the last of token type {last}"


@pytest.mark.parametrize(("name", "fields"), READ_FORWARD)
def test_two_texts_have_the_specials_of_rows_between_them(name, fields):
    """Where rows have texts of both token types."""
    objective = make_objective(name, fields)
    specials, rows = objective.specials(VOCAB), rows_of(objective)
    both = {specials.token_type, specials.second_type}
    texts = [{own for token, own in row if is_text(token)} for row in rows]
    if len(both) == 1 or not any(both <= own for own in texts):
        return
    expected = specials.row("A", "B")[len(specials.before) :]
    expected = expected[: len(specials.between) + 2]

    def is_expected(part):
        return len(part) == len(expected) and all(
            own == token_type
            and (is_text(token) if piece in ("A", "B") else token == piece)
            for (token, own), (piece, token_type) in zip(part, expected, strict=True)
        )

    assert any(
        is_expected(row[at : at + len(expected)])
        for row in rows
        for at in range(len(row))
    ), f"no row has {expected}"
