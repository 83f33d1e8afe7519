"""Queries, keys and values of all layers are those by which states come about."""

import jax
import numpy as np

from research import networks
from research.contract.batch import attention_mask
from tests.testing.compiled_apply import apply
from tests.testing.example_batches import vocab
from tests.testing.model_options import model_options
from tests.testing.trees import make_params

VOCAB = vocab(size=50)


def test_the_projections_give_the_next_states():
    """With rotary positions, shared keys and two segments, without feed-forward."""
    options = model_options(
        layers=3, width=16, heads=4, num_kv_heads=2, feedforward=8, position="rotary"
    )
    needs = networks.Needs(pattern="causal", layers=True)
    module = networks.build(options, needs, VOCAB)
    position = np.arange(8, dtype=np.int32)[None]
    group = dict.fromkeys(("token", "position", "rank", "reach"), position)
    group |= {"segment": np.array([[1] * 5 + [2] * 3], np.int32)}
    group |= {"token_type": 0 * position}
    params = make_params(module, lambda net: net.states(group))
    blocks = params["stack"]["blocks"]
    for leaf in ("kernel", "bias"):
        blocks["feedforward"]["out"][leaf] *= 0
    found = apply(module, params, lambda net: net.layers(group))
    layers, out = jax.tree.map(np.asarray, (found, blocks["attention"]["out"]))
    for n in range(2):  # the last states are normalised
        logits = np.einsum("blhk,bmhk->bhlm", layers.query[n], layers.key[n])
        logits = np.where(attention_mask(group)[:, None], logits / 2, -np.inf)
        probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        values = np.einsum("bhlm,bmhk->blhk", probs, layers.value[n])
        added = values.reshape(1, 8, 16) @ out["kernel"][n] + out["bias"][n]
        expected = layers.states[n] + added
        np.testing.assert_allclose(layers.states[n + 1], expected, atol=1e-5)
