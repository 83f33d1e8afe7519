"""Names of earlier versions stand for today's, in checkpoints and in configs."""

import json
from pathlib import Path

import pytest

from research.config.identity import identity
from research.contract.parameter_names import (
    NAME_KEYS,
    RENAMED,
    current_name,
    earlier_name,
    rename_keys,
)

TREES = Path(__file__).parent / "goldens" / "compile"


@pytest.mark.parametrize("earlier", RENAMED)
def test_each_name_has_one_of_today_and_back(earlier):
    name = earlier.replace("*", "1")
    assert current_name(name) != name
    assert earlier_name(current_name(name)) == name
    several = f"token, net/{name}/kernel,my_{name}"
    assert current_name(several) == f"token, net/{current_name(name)}/kernel,my_{name}"


def test_no_published_network_has_a_name_of_an_earlier_version():
    for path in TREES.glob("*.json"):
        for name in json.loads(path.read_text())["tree"]:
            assert current_name(name) == name, path


def test_keys_are_renamed_inside_of_any_structure():
    state = ({"place": {"kind": 1, "norm": ({"rows": 2},)}}, [3], {"head": None})
    renamed = ({"embeddings": {"token_type": 1, "norm": ({"embedding": 2},)}}, [3])
    renamed += ({"head": None},)
    assert rename_keys(state, current_name) == renamed
    assert rename_keys(renamed, earlier_name) == state


@pytest.mark.parametrize("key", NAME_KEYS)
def test_both_names_in_a_config_are_one_identity(key):
    config = {"objective.name": "mlm", key: "token,place/kind,answer_nsp"}
    today = config | {key: "token,embeddings/token_type,head_nsp"}
    assert identity(config) == identity(today)
    assert identity(config) != identity(config | {key: "token,place"})
