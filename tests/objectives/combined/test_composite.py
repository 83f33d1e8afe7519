"""An objective that is made of others can do what they can do, under their names."""

from types import SimpleNamespace

import pytest

from research import objectives
from research.objectives.combined import mix
from research.objectives.combined.packed_rows import PackedRows
from research.objectives.combined.wrapped import can_be_wrapped

FLAGS = [
    name
    for name, kind in objectives.Objective.__annotations__.items()
    if (kind is bool or name == "pattern") and name != "caches_vectors"
]
"""What an objective says of itself by a plain value, whatever it is made of; a
composite compares no vectors of micro-batches, and refuses to accumulate."""


def evaluates_itself(name):
    objective = objectives.make_objective(name)
    return type(objective.for_evaluation()) is type(objective)


MIXABLE = [name for name in mix.BASE_OBJECTIVES if evaluates_itself(name)]
MIXED = {"objective": "mix", "base_objective": "lm", "parts": {"a": {}, "b": {}}}
NESTED = {"parts": {"masked": {"objective": "mlm"}, "both": MIXED}}


OF_TRAINING = {
    **{"label_smoothing": 0.1, "z_loss": 0.1, "sampled_words": 4},
    **{"activation_penalty": 1.0, "temporal_penalty": 1.0, "consistency": 1.0},
    "future_coef": 1.0,
}
"""Fields of what training alone adds to a loss, and values above 0."""


def fields_of_training(objective):
    """Their values, in the objective or in what it is made of."""
    made_of = getattr(objective, "members", {}).values()
    found = [value for member in made_of for value in fields_of_training(member)]
    return found + [getattr(objective, n) for n in OF_TRAINING if hasattr(objective, n)]


@pytest.mark.parametrize("name", objectives.names())
def test_an_evaluation_has_nothing_that_training_alone_adds(name):
    """So its loss is -log p, and comparable with and without smoothing."""
    known = objectives.objective_class(name).__dataclass_fields__
    fields = {n: value for n, value in OF_TRAINING.items() if n in known}
    own = objectives.make_objective(name, **fields)
    made = [own, PackedRows(own)]
    bases = {"mix": name in MIXABLE, "distill": can_be_wrapped(name)}
    for kind, may_be_base in bases.items():
        if may_be_base:
            part = {"parts": {"a": fields}} if kind == "mix" else {"base": fields}
            part["base_objective"] = name
            made.append(objectives.make_objective(kind, **part))
    says_what_differs = "for_evaluation" in vars(type(own))
    if type(own.for_evaluation()) is type(own):
        part = {"a": {"objective": name, **fields}}
        made.append(objectives.make_objective("joint", parts=part))
    for objective in made:
        assert all(fields_of_training(objective)) or not fields
        assert not any(fields_of_training(objective.for_evaluation()))
        if not fields and not says_what_differs:
            assert objective.for_evaluation() is objective


@pytest.mark.parametrize("name", MIXABLE)
def test_a_composite_of_one_objective_is_like_it(name):
    objective = objectives.make_objective(name)
    mixed = objectives.make_objective("mix", base_objective=name, parts={"a": {}})
    joint = objectives.make_objective("joint", parts={"a": {"objective": name}})
    for composite in (PackedRows(objective), mixed, joint):
        for flag in FLAGS:
            assert getattr(composite, flag) == getattr(objective, flag), flag
        meanings = list(objective.score_methods.values())
        assert list(composite.score_methods.values()) == meanings
        assert list(composite.writers.values()) == list(objective.writers.values())
        for method, own in zip(
            composite.score_methods, objective.score_methods, strict=True
        ):
            assert composite.scored_part(method) == objective.scored_part(own)
    assert PackedRows(objective).name == name
    assert [*PackedRows(objective).score_methods] == [*objective.score_methods]


def test_abilities_are_found_by_the_names_of_parts_within_parts():
    joint = objectives.make_objective("joint", **NESTED)
    assert set(joint.score_methods) == {
        "both.a.left_to_right",
        "both.b.left_to_right",
        "masked.original",
        "masked.within_word_l2r",
    }
    causal = joint.members["both"].members["b"]
    assert joint.scored_part("both.b.left_to_right") == (causal, "left_to_right")
    assert joint.scored_part("masked.original") == (joint.members["masked"], "original")
    assert set(joint.writers) == {"both.a", "both.b", "masked"}
    assert joint.fills_masks


def test_a_composite_of_electra_has_its_two_networks():
    joint = objectives.make_objective("joint", parts={"electra": {}})
    net = SimpleNamespace(generator="small", discriminator="large")
    for objective in (joint, PackedRows(joint.members["electra"])):
        assert objective.token_predictor(net) == "small"
        assert objective.text_encoder(net) == "large"
