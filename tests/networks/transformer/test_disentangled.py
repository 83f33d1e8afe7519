"""Disentangled attention, gates and mixtures of layers equal the official GPT-BERT."""

# B batch, L length, D width

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from research import networks
from research.networks import Needs
from research.networks.transformer.positions.disentangled import log_bucket
from tests.testing.compiled_apply import apply
from tests.testing.example_batches import vocab
from tests.testing.model_options import model_options
from tests.testing.trees import parameter_shapes

LAYERS, WIDTH, INNER, VOCAB, BUCKETS, LENGTH = 2, 32, 48, 40, 8, 20
OPTIONS = {
    **{"layers": LAYERS, "width": WIDTH, "feedforward": INNER, "heads": 4},
    **{"position": "disentangled", "distance_buckets": BUCKETS, "largest_distance": 24},
    **{"layer_mixing": "sublayers", "norm_epsilon": 1e-5, "norm_scale": False},
    **{"sublayer_norm": True, "embedding_norm": "always", "attention_gate": True},
    **{"activation": "geglu", "feedforward_bias": False},
}
LAYER = {
    "in_proj_qk.weight": (2 * WIDTH, WIDTH),
    "in_proj_qk.bias": (2 * WIDTH,),
    "in_proj_vg.weight": (2 * WIDTH, WIDTH),
    "in_proj_vg.bias": (2 * WIDTH,),
    "out_proj.weight": (WIDTH, WIDTH),
    "out_proj.bias": (WIDTH,),
}
OFFICIAL = {
    "relative_embedding": (2 * BUCKETS - 1, WIDTH),
    "word_embedding.weight": (VOCAB, WIDTH),
    "relative_layer_norm.weight": (WIDTH,),
    "relative_layer_norm.bias": (WIDTH,),
    **{f"{n}.{name}": shape for n in range(LAYERS) for name, shape in LAYER.items()},
    **{
        f"{n}.mlp.{index}": shape
        for n in range(LAYERS)
        for index, shape in ((1, (2 * INNER, WIDTH)), (4, (WIDTH, INNER)))
    },
    **{f"alphas.{n}": (n + 2,) for n in range(2 * LAYERS)},
    "classifier.weight": (WIDTH, WIDTH),
    "classifier.bias": (WIDTH,),
    "bias": (VOCAB,),
}
"""The official model's parameters in its order, and their shapes."""
GOLDEN = {
    "full": [
        [0.75556, 0.30978, 1.30916],
        [-1.52152, 0.68961, 1.65775],
        [-4.05335, -0.52292, 0.49681],
    ],
    "causal": [
        [-0.3586, -1.35311, 2.45991],
        [-0.63384, 0.30828, 1.63458],
        [-3.72503, -0.43438, -0.00331],
    ],
}
"""Logits of the first three tokens at positions 0, 7 and 19 by ltgoslo/gpt-bert at
9fc1507, pretraining/model_extra.py, with parameter n of `OFFICIAL` drawn by seed n."""


def official_params():
    return {
        name: np.random.default_rng(n).normal(0, 0.3, shape).astype(np.float32)
        for n, (name, shape) in enumerate(OFFICIAL.items())
    }


def our_params(official, shapes):
    """The same parameters in our tree; factors that have no effect are not 0."""

    def dense(name, part=slice(None)):
        weights = [official[f"{n}.{name}.weight"][part].T for n in range(LAYERS)]
        biases = [official[f"{n}.{name}.bias"][part] for n in range(LAYERS)]
        return {"kernel": np.stack(weights), "bias": np.stack(biases)}

    def kernel(index, part=slice(None)):
        each = (official[f"{n}.mlp.{index}"][part].T for n in range(LAYERS))
        return {"kernel": np.stack([*each])}

    def mixture(sublayer):
        found = np.full((LAYERS, 2 * LAYERS + 1), 9.0, np.float32)
        for n in range(LAYERS):
            factors = official[f"alphas.{2 * n + sublayer}"]
            found[n, : len(factors)] = factors[::-1]
        return found

    first, second = slice(WIDTH), slice(WIDTH, None)
    params = {
        "token": {"embedding": official["word_embedding.weight"]},
        "output": {
            "dense": {
                "kernel": official["classifier.weight"].T,
                "bias": official["classifier.bias"],
            },
            "bias": official["bias"],
        },
        "stack": {
            "distance": official["relative_embedding"],
            "distance_norm": {
                "scale": official["relative_layer_norm.weight"],
                "bias": official["relative_layer_norm.bias"],
            },
            "blocks": {
                "attention": {
                    "query": dense("in_proj_qk", first),
                    "key": dense("in_proj_qk", second),
                    "value": dense("in_proj_vg", first),
                    "gate": dense("in_proj_vg", second),
                    "out": dense("out_proj"),
                },
                "feedforward": {
                    "gate": kernel(1, slice(INNER)),
                    "in": kernel(1, slice(INNER, None)),
                    "out": kernel(4),
                },
                "attention_mixture": mixture(0),
                "feedforward_mixture": mixture(1),
            },
        },
    }

    def padded(ours, shape):
        return np.pad(
            ours, [(0, n - m) for m, n in zip(ours.shape, shape.shape, strict=True)]
        )

    assert jax.tree.structure(params) == jax.tree.structure(shapes)
    return jax.tree.map(padded, params, shapes)


@pytest.mark.parametrize("kind", GOLDEN)
def test_logits_are_the_official_ones(kind):
    """But for gelu in the readout, which is exact there, and by tanh in ours."""
    official, index = official_params(), np.arange(LENGTH, dtype=np.int32)[None]
    zeros = np.zeros_like(index)
    group = {"token": np.random.default_rng(99).integers(0, VOCAB, (1, LENGTH))}
    group |= {"position": index, "segment": zeros + 1, "token_type": zeros}
    rank = index if kind == "causal" else zeros
    group |= {"rank": rank, "reach": rank}
    needs = Needs(pattern="general", transform=True)
    module = networks.build(model_options(**OPTIONS), needs, vocab(VOCAB))

    def run(net):
        states = net.states(group)
        return states, net.readout(states).feature

    params = our_params(official, parameter_shapes(module, run))
    states, feature = apply(module, params, run)
    dense = params["output"]["dense"]
    x = np.asarray(states) @ dense["kernel"] + dense["bias"]
    x = np.asarray(jax.nn.gelu(x, approximate=False))
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
    assert 1e-5 < np.abs(x - feature).max() < 5e-3
    logits = x @ official["word_embedding.weight"].T + official["bias"]
    np.testing.assert_allclose(logits[0, [0, 7, 19], :3], GOLDEN[kind], atol=5e-5)


@pytest.mark.parametrize(
    ("buckets", "largest", "expected"),
    [
        (32, 512, {0: 0, 16: 16, 17: 17, 20: 17, 30: 19, 64: 23, 200: 27, 400: 30}),
        (32, 512, {511: 31, 900: 31}),
        (16, 32, {8: 8, 9: 9, 10: 10, 12: 11, 16: 12, 20: 13, 24: 14, 31: 15}),
        (256, 512, {128: 128, 129: 129, 150: 143, 200: 169, 256: 192, 510: 255}),
    ],
)
def test_buckets_of_distances_are_debertas(buckets, largest, expected):
    """microsoft/DeBERTa, deberta/da_utils.py, make_log_bucket_position."""
    distance = jnp.array([*expected, *(-each for each in expected)])
    official = [*expected.values(), *(-each for each in expected.values())]
    np.testing.assert_array_equal(log_bucket(distance, buckets, largest), official)
