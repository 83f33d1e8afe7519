"""An error about one changed field names that field."""

import dataclasses

import pytest

from launch.config import load_config
from research import objectives
from research.contract.errors import UserError
from research.contract.fields import check_values

NUMBERS = (0, 1, 2, 0.25, 1.0)


def legal_values(field) -> list:
    """Some of the values that a field's declaration allows."""
    candidates = [*field.metadata.get("values", ()), *NUMBERS]
    if isinstance(field.default, bool):
        candidates = [not field.default]
    found = []
    for value in candidates:
        try:
            check_values([field], {field.name: value})
        except ValueError:
            continue
        found.append(value)
    return found


@pytest.mark.parametrize("name", objectives.names())
def test_a_value_that_goes_with_no_default_is_named(name):
    for field in dataclasses.fields(objectives.objective_class(name)):
        for value in legal_values(field) if field.metadata else ():
            try:
                objectives.make_objective(name, **{field.name: value})
            except UserError as error:
                assert field.name in str(error).partition("; ")[0]


@pytest.mark.parametrize(
    ("overrides", "found"),
    [
        ({"objective.base.rate": 0.4}, {"rate": 0.4}),
        (
            {"objective.base.direction": "backward", "objective.base_objective": "lm"},
            {"direction": "backward"},
        ),
        ({"objective.base_objective": "lm"}, {}),
        (
            {"objective.base_objective": "mlm", "objective.base.rate": 0.4},
            {"rate": 0.4},
        ),
        ({"objective.base.rat": 0.4}, "unknown field of objective .* mean rate"),
        ({"objective.teacher_model.layer": 1}, "unknown key of model .* mean layers"),
        ({"data.mixture.a": 1}, "data.mixture is empty, .* as a whole"),
        ({"objective.parts.a.rate": 1}, "has none, but joint or mix"),
    ],
)
def test_fields_of_the_wrapped_objective_are_keys(overrides, found):
    """experiments/distilbert.py has fields of its base, mlm."""
    spec = "experiments/distilbert.py:tiny"
    if isinstance(found, str):
        with pytest.raises(UserError, match=found):
            load_config(spec, overrides)
        return
    default, base = (
        dict(load_config(spec, given).objective.base) for given in ({}, overrides)
    )
    is_same = overrides.get("objective.base_objective", "mlm") == "mlm"
    assert base == (default if is_same else {}) | found
