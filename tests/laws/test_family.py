"""The contract of every family of Hugging Face's models, found by its definition."""

import json

import pytest

from research import objectives
from research.data.tokenize import train_tokenizer
from research.interop.huggingface.families import FAMILIES, family_of, preferred
from research.interop.huggingface.family import TASK_HEADS
from research.objectives.tasks import task_input
from tests.testing.huggingface_goldens import FOLDER


def _names(family):
    return [name for name, _ in family.architectures]


each_family = pytest.mark.parametrize(
    "family",
    FAMILIES,
    ids=[f"{each.model_type} {_names(each)[0]}" for each in FAMILIES],
)


def _tensors(family):
    return [(row.key, row.paths) for row in family.rows()]


def _goldens():
    configs = FOLDER.glob("*/config.json")
    read = [json.loads(path.read_text()) for path in configs]
    return {(each["model_type"], each["architectures"][0]) for each in read}


@each_family
def test_it_is_found_by_its_classes(family):
    for name in _names(family):
        config = {"model_type": family.model_type, "architectures": [name]}
        assert family_of(config, "here") == family
    heads = {head for _, heads in family.architectures for head in heads}
    assert heads == family.heads.keys()


@each_family
def test_it_or_one_with_its_tensors_has_golden_values(family):
    goldens = _goldens()
    tested = [
        other
        for other in FAMILIES
        if any((other.model_type, name) in goldens for name in _names(other))
    ]
    assert any(_tensors(family) == _tensors(other) for other in tested), (
        "add a row to CASES of tests/proofs/huggingface_goldens.py, and make its golden"
    )


@each_family
def test_what_it_says_of_objectives_is_legal(family):
    name, fields = family.trained_by
    assert objectives.make_objective(name, **fields).name == name
    assert family.task_format in ("", *task_input.FORMATS)
    assert {*family.tokenizer_types} <= {*train_tokenizer.TRAINED_TYPES}


@each_family
def test_a_network_with_its_own_heads_or_tokens_prefers_it(family):
    for name in family.heads.keys() - {*TASK_HEADS, "readout"}:
        assert family.model_type in preferred([f"head_{name}/out/kernel"], "")
    for tokenizer_type in family.tokenizer_types:
        assert family.model_type in preferred([], tokenizer_type)
    assert family.model_type not in preferred(["token/embedding", "head_label/out"], "")
