"""An error about the fields of an objective names what is wrong in them."""

import dataclasses
import re

import pytest

from launch.config import load_config
from research import objectives
from research.contract.errors import UserError
from research.contract.fields import check_values
from research.contract.parts import field_of
from research.data.rows import single_texts
from research.objectives.dae.bart import NOISE_RATES
from tests.testing.objective_cases import VOCAB

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


@pytest.mark.parametrize("name", objectives.names())
def test_a_value_that_a_field_does_not_allow_is_named(name):
    """A word that is none of its values, and a number beyond each of its bounds."""
    for field in dataclasses.fields(objectives.objective_class(name)):
        wrong = ["sideways"] if "values" in field.metadata else []
        for kind, bound in field.metadata.get("bounds", {}).items():
            distance = {"least": -1, "most": 1, "above": 0, "below": 0}[kind]
            wrong.append(bound + distance)
        for value in wrong:
            words = f"objective {name}: {field.name} must be "
            with pytest.raises(UserError, match=words):
                objectives.make_objective(name, **{field.name: value})


@pytest.mark.parametrize("name", objectives.names())
def test_a_source_without_which_nothing_is_read_is_declared(name):
    """By `needed`, so that a run without it is refused before any text is read."""
    objective = objectives.make_objective(name)
    try:
        objective.batch_spec(max(32, objective.min_length))
        objective.needs(VOCAB)
    except UserError as error:
        (missing,) = re.findall(r"objective\.(\w+) is not set", str(error))
        assert field_of(type(objective), missing).metadata.get("needed")


TOO_MANY = {"mask_fraction": 0.9, "random_fraction": 0.2}
PAIR = {"format": "segment_pair"}
WRONG_FIELDS = {
    "bart": [
        (dict.fromkeys(NOISE_RATES, 0.0), "no noise: set one of"),
        ({"text_unit": "pair"}, f"text_unit must be {', '.join(single_texts()[:-1])}"),
    ],
    "dae": [
        ({"noise_mask": "prefix", "rate": 0.6}, "most 0.5 where noise_mask is prefix"),
        ({"noise_mask": "all"}, "noise_mask all needs replacement shuffle"),
        ({"noise_mask": "iid", "replacement": "shuffle"}, "shuffle needs target whole"),
    ],
    "distill": [
        ({"base": {"ratio": 1}}, "unknown field of objective mlm 'ratio'"),
        (
            {"base": {"rate": 2.0}},
            "objective.base: objective mlm: rate must be above 0",
        ),
        ({"base": "rate"}, "base maps names to values"),
        ({"teacher_model": {"layer": 2}}, "objective.teacher_model: .*layer"),
        ({"base_objective": "joint"}, "base_objective is "),
        ({"layer_map": (1, -2)}, "layer_map must have whole numbers from 0"),
        ({"layer_map": (-1, -1)}, "layer_map must name a layer"),
        ({"hard": 0.0, "soft": 0.0}, "hard, soft, .* must be above 0"),
    ],
    "coco_lm": [
        ({"task": "chosen"}, "task must be replaced, not chosen"),
        ({"format": "segment_pair"}, "format must be stream, not segment_pair"),
    ],
    "electra": [
        ({"tie": "all"}, "generator_size must be 1, not 0.25"),
        ({"head": "class", "task": "chosen"}, "head class needs task replaced"),
    ],
    "infoword": [(TOO_MANY, "must be at most 1, not 1.1")],
    "joint": [
        ({"parts": {"a": {}}}, "part 'a': unknown objective.name 'a'"),
        ({"parts": {"lm": {"weight": [[5, 1], [2, 0]]}}}, "weight of part 'lm'"),
        ({"parts": {"mlm": {}, "mlm_b": {"objective": "mlm"}}}, "the prefix 'mlm_'"),
        ({"parts": {"mlm": {"rte": 0.1}}}, "part 'mlm': .*did you mean rate"),
    ],
    "kbert": [
        ({"base_objective": base}, "must read one text, attend to all of it")
        for base in ("lm", "plm", "electra", "dae")
    ],
    "knowbert": [
        ({"link_coef": 0, "mlm_coef": 0}, "are both 0: nothing is learned"),
    ],
    "lm": [
        ({"mem_len": 8, "direction": "both"}, "direction forward"),
        ({"mem_len": 8, "prefix": "random"}, "prefix none"),
        ({"mem_len": 8, "documents": "apart"}, "documents joined"),
    ],
    "masked_diffusion": [
        ({"min_t": 0.5, "max_t": 0.4}, "min_t must be at most max_t"),
        ({"schedule": "cosine", "count": "exact"}, "needs probability t and count"),
        ({"frequency_power": 0.1, "block_size": 4}, "needs count independent and bl"),
        (
            {"count": "inside", "block_size": 1, "min_t": 0.3, "max_t": 0.8},
            "has no count between min_t",
        ),
    ],
    "mass": [
        (TOO_MANY, r"mask_fraction \+ random_fraction must be at most 1"),
        ({"text_unit": "pair"}, f"text_unit must be {', '.join(single_texts()[:-1])}"),
        ({"shortest": 5}, "shortest above 1 needs text_unit sentence, not stream"),
    ],
    "mix": [
        ({"base_objective": "mix"}, "base_objective must be bart, .*, not 'mix'"),
        ({"parts": {"a": {"mixing_rate": [[0, 1], [9, 0]]}}}, "0 at step 9"),
        ({"parts": {"a": {"mixing_rate": [[9, 1], [0, 1]]}}}, "steps that ascend"),
        (
            {"parts": {"a": {"mixing_rate": "often"}}},
            "rate of part 'a' must be a number",
        ),
        ({"parts": {"a": {"rate": 7}}}, "part 'a': objective mlm: rate"),
        ({"parts": {"a": 3}}, "parts map names to fields"),
    ],
    "mlm": [
        (TOO_MANY, "must be at most 1, not 1.1"),
        ({"sentence_task": "nsp"}, "segment_pair or sentence_pair"),
        (PAIR | {"sentence_task": "distance"}, "none, nsp, sop"),
        ({"boundary_targets": 3, "candidates": "all"}, "candidates ordinary"),
        ({"shuffle_rate": 0.9}, r"rate \+ shuffle_rate must be at most 1, not 1.05"),
        ({"shuffle_rate": 0.1, "boundary_targets": 3}, "cannot be combined"),
        ({"rounding": "independent", "unit": "span"}, "independent needs unit token"),
        (
            {"predict_at": "previous", "boundary_targets": 3},
            "previous needs boundary_targets and shuffle_rate 0",
        ),
        ({"predict_at": "previous", "candidates": "all"}, "needs candidates ordinary"),
    ],
    "retromae": [
        ({"predict_at": "previous"}, "predict_at must be masked, not previous"),
        (PAIR, "format must be stream"),
    ],
    "plm": [({"mem_len": 8, "num_permutations": 1}, "at least 2")],
    "sentences": [({"format": "stream"}, "objective sentences")],
    "sentence_vectors": [({"widths": [8, 0]}, r"whole numbers above 0, got \[8, 0\]")],
    "sentilare": [({"base": {"rate": 0.2}}, "base is empty with base_objective mlm")],
    "sequence_classification": [
        ({"lm_coef": 0.5}, "needs format=gpt and pool=token; got"),
        ({"tail": 3, "stride": 8}, "tail must be 0 with a stride"),
    ],
    "sequence_to_sequence": [
        ({"format": "bart", "target_length": 2}, "at least 3 with format bart, not 2")
    ],
    "cvt": [
        ({"unlabelled_dropout": -0.5}, "at least 0, or -1 for the network's rates")
    ],
    "tagging": [(PAIR, "stream, full_sentences")],
    "theseus": [
        (
            {"replacing_rate": [[5, 0.1], [2, 0.3]]},
            "replacing_rate must be a number of at least 0",
        )
    ],
    "tlm": [
        (TOO_MANY, "must be at most 1, not 1.1"),
        *(
            ({"languages": languages}, "objective tlm: languages")
            for languages in ("0:1:2", "-1", "a:b", "", "0:-1")
        ),
    ],
    "unilm": [
        ({"bidirectional": 0.5}, "sum 1, not 1.16667"),
        ({"mask_fraction": 0.95}, "must be at most 1, not 1.05"),
    ],
    "wklm": [(TOO_MANY, "must be at most 1, not 1.1")],
}
"""Objective -> fields that do not go together or have values of their own kind, and the
words of the error."""


@pytest.mark.parametrize(
    ("name", "fields", "words"),
    [(name, *row) for name, rows in WRONG_FIELDS.items() for row in rows],
)
def test_fields_that_do_not_go_together_are_named(name, fields, words):
    with pytest.raises(UserError, match=words) as caught:
        objectives.make_objective(name, **fields)
    assert "\n" not in str(caught.value)


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
        ({"objective.parts.a.rate": 1}, "has none, but hybrid or joint or mix"),
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
