"""The contract of every scheme of positions, found by listing the folder.

`test_network.py` has the laws of a network with each, as position-NAME.
"""

import dataclasses

import pytest

from launch.key_docs import keys_of
from research import networks
from research.contract.errors import UserError
from research.contract.fields import check
from research.networks.shared.needs import Needs
from research.networks.transformer import kernels, positions
from research.networks.transformer.transformer import Network
from tests.laws.test_network import TRANSFORMER, VOCAB, make_group
from tests.testing.compiled_apply import apply
from tests.testing.trees import assert_close, make_params

NAMES = positions.FOLDER.names()
each_scheme = pytest.mark.parametrize("name", NAMES)


def make(name, **keys):
    return Network(**TRANSFORMER, position=name, **keys)


@each_scheme
def test_its_fields_are_keys_of_transformers(name):
    """They have comments, and are refused where another scheme is chosen."""
    cls = positions.FOLDER.part_class(name, "model.position")
    check(cls())
    assert issubclass(cls, positions.Scheme) and hash(make(name)) is not None
    meanings = {key.name: key.meaning for key in keys_of(Network, "")}
    for field in dataclasses.fields(cls):
        assert f"{name}: " in meanings[field.name], "a field has a comment"
    assert make(name).logit_features <= {*kernels.FEATURES}


@each_scheme
@pytest.mark.parametrize("attention", ["interval", "library"])
def test_kernels_compute_it_or_refuse_it(name, attention):
    """`features` tells all that it adds to logits."""
    try:
        network = make(name, attention=attention)
    except UserError as error:
        assert "\n" not in str(error) and "set model.attention=dense" in str(error)
        return
    group = make_group("causal", rows=1)
    dense, other = (
        networks.build(each, Needs(pattern="causal"), VOCAB)
        for each in (make(name), network)
    )
    params = make_params(dense, lambda net: net.states(group))
    expected, found = (
        apply(each, params, lambda net: net.states(group)) for each in (dense, other)
    )
    assert_close(found, expected, 1e-5)


@pytest.mark.parametrize("name", [*positions.biases()][1:])
def test_its_bias_goes_with_other_schemes(name):
    """`model.position_bias` adds it beside any scheme without one."""
    for other in NAMES:
        if other in positions.biases():
            if other != name:
                with pytest.raises(UserError, match="has a bias of its own"):
                    make(other, position_bias=name)
            continue
        network = make(other, position_bias=name)
        assert {*network.scheme.features(network)} <= network.logit_features
