"""Specials are neither chosen nor drawn, but where a system's released code does so."""

import dataclasses

import numpy as np
import pytest

from launch.config import load_config
from research import objectives
from tests.test_experiments import FOLDER, NAMES
from tests.testing.example_batches import keys
from tests.testing.objective_cases import VOCAB, make_example

EXCEPTIONS = {
    "candidates": {"mass", "roberta", "xlmr"},
    "random_tokens": {
        *("albert", "bert", "bert_wwm", "mbert", "structbert"),
        *("ernie", "mass", "unilm", "xlm", "distilbert", "tinybert"),
    },
}
"""Field -> the experiments in which it is "all": specials are chosen, or drawn."""

CASES = [
    (name, field.name)
    for name in objectives.names()
    for field in dataclasses.fields(objectives.make_objective(name))
    if field.name in EXCEPTIONS
]
NAMES_WITH_NOISE = sorted({name for name, _ in CASES})
LENGTH = 24


def values(section, field: str) -> set:
    """The values of a field in an objective's config and in those of its parts."""
    inner = [part for part in section.values() if hasattr(part, "values")]
    own = {section[field]} if field in section else set()
    return own.union(*(values(part, field) for part in inner))


@pytest.mark.parametrize("field", EXCEPTIONS)
def test_the_named_systems_alone_choose_or_draw_specials(field):
    found = {
        name: values(load_config(str(FOLDER / f"{name}.py"), ()).objective, field)
        for name in NAMES
    }
    assert {name for name in NAMES if "all" in found[name]} == EXCEPTIONS[field]


def corrupt(name: str, random_fraction: float, **fields) -> tuple[float, np.ndarray]:
    """Of texts with separators: the fraction of targets, and [B, L] bool: the tokens,
    that are special where none becomes a mask."""
    fields |= {"mask_fraction": 0.0, "random_fraction": random_fraction}
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


@pytest.mark.parametrize(("name", "field"), CASES)
def test_the_exceptions_choose_or_draw_them(name, field):
    chosen, special = corrupt(name, 1.0, **{field: "all"})
    if field == "candidates":
        assert 0.05 < chosen < 0.3
    else:
        assert chosen == 0 and (special & ~corrupt(name, 0.0)[1]).any()
