"""Adaptive embeddings and softmax: tables, projections, and what is tied."""

import jax
import numpy as np
import pytest

from research import networks
from research.contract.errors import UserError
from research.networks.transformer.one_stack import Transformer

SIZE = 300
KEYS = {"cutoffs": [100, 250], "output_head": "bias", "scale_embeddings": True}
STATES = np.random.default_rng(0).normal(size=(2, 3, 16)).astype(np.float32)


def network(make_options, **changes):
    return Transformer(make_options(**(KEYS | changes)), size=SIZE)


def embed_and_read(token):
    return lambda net: (net.embeddings()[0](token), net.readout(STATES))


@pytest.mark.parametrize("divisor", [1, 4])
def test_each_cluster_has_a_table_that_the_softmax_shares(
    make_options, make_params, divisor
):
    token = np.array([[0, 99, 100], [249, 250, 299]])
    net = network(make_options, cutoff_divisor=divisor)
    params = make_params(net, embed_and_read(token))
    own, out = params["token"], params["output"]
    widths = [16, 16 // divisor, 16 // divisor**2]
    rows = [own["embedding"], own["tail_1_embedding"], own["tail_2_embedding"]]
    assert [table.shape for table in rows] == [
        (128, widths[0]),
        (256, widths[1]),
        (128, widths[2]),
    ]
    x, readout = networks.apply(net, params, embed_and_read(token))
    project = [np.eye(16)] * 3
    if divisor > 1:
        project = [own[f"{p}project"] for p in ("", "tail_1_", "tail_2_")]
    else:
        assert not any("project" in name for name in (*own, *out))
    for word, found in zip(token.ravel(), x.reshape(6, 16), strict=True):
        cluster = int(word >= 100) + int(word >= 250)
        vector = rows[cluster][word - [0, 100, 250][cluster]]
        expected = 4 * vector @ project[cluster]  # x sqrt(width)
        np.testing.assert_allclose(found, expected, atol=1e-5)
    # Only the first projection of the softmax is its own.
    if divisor > 1:
        project[0] = out["project"]
        assert {name for name in out if "project" in name} == {"project"}
    each = (readout.head, *readout.tails)
    for number, (part, table) in enumerate(zip(each, rows, strict=True)):
        np.testing.assert_array_equal(part.table, table)
        expected = STATES @ project[number].T
        np.testing.assert_allclose(part.feature, expected, atol=1e-5)
        assert part.size == [102, 150, 50][number]
        hidden = np.asarray(part.bias) < -1e8
        assert hidden.nonzero()[0].tolist() == [*range(part.size, len(part.bias))]
    assert readout.cutoffs == (100, 250)


def test_biases_do_not_decay_and_projections_start_small(make_options):
    net = network(make_options, cutoff_divisor=2, width=64, heads=2)
    states = np.ones((1, 1, 64), np.float32)
    fn = lambda net: (net.embeddings()[0](np.zeros((1, 1), int)), net.readout(states))  # noqa: E731
    params = networks.unbox(networks.init(net, fn, jax.random.key(0)))
    assert {n for n in params["output"] if n.endswith("bias")} == {
        *("bias", "tail_1_bias", "tail_2_bias")
    }
    for leaf in (params["token"]["project"], params["output"]["project"]):
        assert abs(leaf.std() - 0.01) < 0.001
    assert abs(params["token"]["embedding"].std() - 0.02) < 0.001


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"cutoffs": [250, 100]}, "they must ascend"),
        ({"cutoffs": [100, 300]}, "below 300"),
        ({"output_head": "transform"}, r"model\.output_head table or bias"),
        ({"tie_embeddings": False}, r"model\.tie_embeddings True, not False"),
        ({"embedding_width": 8}, r"model\.embedding_width 0"),
    ],
)
def test_illegal_clusters_are_refused(make_options, changes, line):
    with pytest.raises(UserError, match=line):
        net = network(make_options, **changes)
        jax.eval_shape(
            lambda: networks.init(
                net, lambda net: net.readout(STATES), jax.random.key(0)
            )
        )
