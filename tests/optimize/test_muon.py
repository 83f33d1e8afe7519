"""Muon: which parameters it takes, on a mesh, and the values of its polynomial."""

import jax
import numpy as np
import pytest

from launch.config import load_config
from launch.measure.placeholder_vocab import placeholder_vocab
from research.checkpoints.checkpoint import path_name
from research.config.config import Config
from research.contract.errors import UserError
from research.optimize.optimizer import make_optimizer
from research.program.setup import build_program
from tests.testing.optimizer_section import section


def test_newton_schulz_has_the_values_of_its_polynomial():
    """Five steps x -> 3.4445 x - 4.7750 x^3 + 2.0315 x^5 of the singular values 0.6 and
    0.8 (KellerJordan/Muon, muon.py), in float64; the factor of a square matrix is 1."""
    keys = dict(learning_rate=1.0, weight_decay=0.0, clip_norm=0.0, warmup_steps=0)
    config = section(name="muon", update_rms=0.0, schedule="constant", **keys)
    kernel = np.diag([0.6, 0.8]).astype(np.float32)[None]
    params = {"stack": {"blocks": {"dense": {"kernel": kernel}}}}
    optimizer = make_optimizer(config, 9)
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    (found,) = -np.asarray(updates["stack"]["blocks"]["dense"]["kernel"])
    np.testing.assert_allclose(np.diag(found), [0.72287617, 1.11920393], rtol=1e-4)


EXPERIMENTS = ("albert", "bert", "electra", "elmo", "lstm", "t5", "xlnet")


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_it_takes_the_kernels_of_blocks_and_adam_all_other_parameters(experiment):
    """Among the latter are the token table, the output's and heads. Each moment has the
    sharding of its parameter."""
    keys = {"optimizer.name": "muon", "mesh.data": 1, "mesh.fsdp": 8}
    config = load_config(f"experiments/{experiment}.py:tiny", keys)
    state = build_program(
        Config.of(config), vocab=placeholder_vocab(config)
    ).abstract_state
    found, taken = {}, {"muon": set(), "adam": set()}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state.params):
        found[path_name(path)] = leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(state.opt_state):
        before, _, name = path_name(path).partition("/mu/")
        if name:
            taken["muon" if "/muon/" in before else "adam"].add(name)
            assert leaf.sharding == found[name].sharding, name
    ends = ("kernel", "projection")
    kernels = {n for n in found if "/blocks/" in n and n.endswith(ends)}
    assert kernels and taken == {"muon": kernels, "adam": found.keys() - kernels}
    assert all(found[name].ndim == 3 for name in kernels)


def test_a_network_without_matrices_of_blocks_is_refused():
    params = {"output": {"kernel": np.ones((2, 3), np.float32)}}
    with pytest.raises(UserError, match=r"optimizer\.name=muon: no matrix of a block"):
        make_optimizer(section(name="muon"), 500).init(params)
