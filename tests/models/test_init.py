"""The initial parameters of model.init xlm; test_transformer.py has the others'."""

import jax
import numpy as np

from research import models


def test_xlm_initialises_as_pytorch_does(make_options, make_group):
    options = make_options(
        **dict(width=64, feedforward=256, heads=2, token_types=3, init="xlm")
    )
    network, group = models.Transformer(options, size=500), make_group()

    def init(key):
        return models.init(network, lambda net: net.states(group), key)

    params = models.unbox(jax.jit(init)(jax.random.key(0)))
    tables = params["token"]["rows"], params["place"]["position"]
    for table in (*tables, params["place"]["kind"]):
        np.testing.assert_allclose(np.std(table), 64**-0.5, rtol=0.15)
    block = params["stack"]["blocks"]
    for dense, fan_in in (
        (block["attention"]["query"], 64),
        (block["attention"]["out"], 64),
        (block["feedforward"]["out"], 256),
    ):
        for leaf in jax.tree.leaves(dense):
            assert 0.9 * fan_in**-0.5 < np.abs(leaf).max() <= fan_in**-0.5
            np.testing.assert_allclose(np.std(leaf), (3 * fan_in) ** -0.5, rtol=0.15)
