"""Recipes make networks of their keys, and refuse what would not compute the same."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

from launch.commands.shrink import parser
from research import networks
from research.config.config import Config
from research.contract.errors import UserError
from research.networks.shared.quantized import QUANTIZATIONS
from research.program.setup import build_program
from research.use.shrinking import heads
from research.use.shrinking.recipes import RECIPES, Request, fit
from tests.testing import tiny_runs
from tests.testing.model_options import model_options


def shrink(recipe, params=None, **options):
    """The recipe's network of options; it asks the program for no more."""
    program = SimpleNamespace(network=SimpleNamespace(options=model_options(**options)))
    return RECIPES[recipe].make(program, params or {}, Request())


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Of each quantization, with parameters."""
    folder = tiny_runs.write_corpus(tmp_path_factory.mktemp("recipes"))
    found = []
    for kind in QUANTIZATIONS:
        config = Config.of(
            tiny_runs.tiny_config(folder, **{"model.quantization": kind})
        )
        program = build_program(config, jax.devices()[:1])
        found.append((config, program, tiny_runs.random_state(program).params))
    return found


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_network_of_its_keys_has_its_parameters(programs, recipe):
    """Of the first run that it does not refuse."""
    request = Request(batches=1)
    for config, program, params in programs:
        try:
            shrunk = RECIPES[recipe].make(program, params, request)
        except UserError:
            continue
        keys = {f"model.{key}": value for key, value in shrunk.keys.items()}
        smaller = build_program(config.with_values(keys), jax.devices()[:1])
        break
    found = fit(smaller, shrunk.params, request)
    expected = networks.unbox(smaller.abstract_state.params)
    assert shrunk.says
    assert jax.tree.map(np.shape, found) == jax.tree.map(np.shape, expected)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))


TERNARY = {"quantization": "ternary", "quantization_scale": "tensor"}


def test_split_weights_add_up_to_the_ternary_run():
    random = np.random.default_rng(0)
    kernel = random.normal(0, 0.1, (2, 16, 24)).astype(np.float32)
    bias = np.ones((2, 24), np.float32)
    found = shrink("split", {"in": {"kernel": kernel, "bias": bias}}, **TERNARY)
    assert found.keys == {"quantization": "split"} and found.is_saved_as_float
    own = found.params["in"]
    assert own["kernel"].shape == (2, 2, 16, 24) and own["bias"] is bias
    np.testing.assert_allclose(own["kernel"].sum(1), kernel, atol=1e-6)


def test_a_part_beyond_the_clip_is_refused():
    """Of a weight that is 0 and near the threshold a part is larger than the scale."""
    kernel = np.full((2, 16, 24), 0.1, np.float32)
    kernel[:, ::2] = -0.1
    kernel[:, 1::8, ::2], kernel[:, ::8, ::2] = 1e-3, -1e-3
    kernel[:, 1, 0] = 0.06
    words = r"part of in/kernel is beyond model\.quantization_clip=0\.1,"
    with pytest.raises(UserError, match=words):
        shrink("split", {"in": {"kernel": kernel}}, **TERNARY, quantization_clip=0.1)


@pytest.mark.parametrize("recipe", RECIPES)
def test_each_recipe_reads_flags_and_refuses_what_it_cannot_make_smaller(recipe):
    flags = {action.dest for action in parser()._actions}
    assert {*RECIPES[recipe].reads} <= {*Request._fields} <= flags
    with pytest.raises(UserError, match=f"^--recipe={recipe}"):
        shrink(recipe, {"stack": {}}, network="lstm")


@pytest.mark.parametrize(
    ("recipe", "params", "options", "words"),
    [
        ("layers", {}, {"shared_layers": True}, r"not for model\.shared_layers True"),
        ("layers", {}, {"network": "lstm", "layers": 2}, r"not for model\.layers 2"),
        ("layers", {}, {"layer_mixing": "layers"}, r"model\.layer_mixing layers"),
        ("layers", {"features": {}}, {}, r"objective\.features of all layers"),
        ("int8", {}, {"quantization": "split"}, "is split already; --recipe=binary"),
    ],
)
def test_a_network_that_a_recipe_does_not_know_is_refused(
    recipe, params, options, words
):
    with pytest.raises(UserError, match=f"^--recipe={recipe}.*{words}"):
        shrink(recipe, params, **options)


def test_a_split_network_becomes_integers_of_both_parts():
    found = shrink("binary", quantization="split")
    assert found.keys["quantization"] == "split"


@pytest.mark.parametrize(
    ("options", "params", "words"),
    [
        ({"network": "lstm"}, {"stack": {}}, "it is no transformer of one stack"),
        ({}, {"encoder": {}}, "it is no transformer of one stack"),
        ({"num_kv_heads": 1}, {"stack": {}}, "num_kv_heads is 1: heads share keys"),
        ({"shared_layers": True}, {"stack": {}}, "layers have the same heads"),
        ({"quantization": "split"}, {"stack": {}}, "remove heads before the split"),
        ({"sublayer_norm": True}, {"stack": {}}, "heads have a norm together"),
        ({"position": "t5"}, {"stack": {}}, "heads have biases of distances"),
    ],
)
def test_heads_that_depend_on_others_stay(options, params, words):
    with pytest.raises(UserError, match=f"^--recipe=heads: .*{words}"):
        heads.check_heads(model_options(**options), params)
