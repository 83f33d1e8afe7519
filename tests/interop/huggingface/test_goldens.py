"""Models that Hugging Face saved compute here what they compute there."""

from functools import partial

import jax
import numpy as np
import pytest

from research import networks
from research.distributed import sharding
from research.distributed.options import MeshOptions
from tests.testing import huggingface_goldens

STEPPED = ("bert", "gpt2", "t5", "xlnet")
LEARNING_RATE = 0.1
ON_A_MESH = [("t5", 9), ("xlnet", 1)]
"""Names, and layers in one step of the scan (9: unrolled)."""
ON_A_MESH += [
    pytest.param(name, unroll, marks=pytest.mark.long)
    for name in huggingface_goldens.NAMES
    for unroll in (1, 9)
    if (name, unroll) not in ON_A_MESH
]


def assert_equal_outputs(golden, loss, logits):
    np.testing.assert_allclose(loss, golden.golden["output/loss"], rtol=1e-5)
    for name, array in logits.items():
        theirs = golden.golden[f"output/{name}"]
        assert array.shape == theirs.shape
        if golden.here is not None and array.shape[:2] == golden.here.shape:
            array, theirs = array[golden.here], theirs[golden.here]
        np.testing.assert_allclose(array, theirs, atol=1e-5)


@pytest.mark.parametrize(
    "name",
    [  # RoBERTa's network is that of XLM-R
        pytest.param(name, marks=[pytest.mark.long] * (name == "roberta"))
        for name in huggingface_goldens.NAMES
    ],
)
def test_logits_and_loss_are_those_of_hugging_face(name):
    """For `STEPPED` also the parameters after one step of SGD."""
    golden = huggingface_goldens.load(name)
    params = huggingface_goldens.params_of(golden)
    outputs = partial(networks.apply, golden.network, fn=golden.outputs)
    if name not in STEPPED:
        assert_equal_outputs(golden, *jax.jit(outputs)(params))
        return
    with_grads = jax.value_and_grad(outputs, has_aux=True)
    (loss, logits), grads = jax.jit(with_grads)(params)
    assert_equal_outputs(golden, loss, logits)
    after = {
        key.removeprefix("after/"): array
        for key, array in golden.golden.items()
        if key.startswith("after/")
    }
    expected = huggingface_goldens.params_of(golden, after)
    jax.tree.map(
        lambda p, g, e: np.testing.assert_allclose(p - LEARNING_RATE * g, e, atol=1e-5),
        params,
        grads,
        expected,
    )


@pytest.mark.parametrize("name", ["albert", "bart", "xlnet"])
def test_so_they_are_where_layers_are_unrolled_and_rematerialised(name):
    golden = huggingface_goldens.load(name, scan_unroll=9, remat="full")
    params = huggingface_goldens.params_of(golden)
    outputs = partial(networks.apply, golden.network, fn=golden.outputs)
    assert_equal_outputs(golden, *jax.jit(outputs)(params))


@pytest.mark.parametrize(("name", "unroll"), ON_A_MESH)
def test_so_they_are_on_a_mesh(name, unroll):
    """Parameters are sharded over eight devices, layers scanned or not."""
    golden = huggingface_goldens.load(name, scan_unroll=unroll)
    params = huggingface_goldens.params_of(golden)
    mesh = sharding.make_mesh(MeshOptions(**{"data": 2, "fsdp": 2, "tensor": 2}))
    where = jax.tree.map(
        lambda axes, leaf: sharding.parameter_sharding(axes, leaf.shape, mesh),
        networks.logical_axes(golden.boxed),
        params,
        is_leaf=sharding.is_logical_axes,
    )
    outputs = partial(networks.apply, golden.network, fn=golden.outputs)
    with sharding.context(mesh):
        params = jax.device_put(params, where)
        sharded = [x for x in jax.tree.leaves(params) if not x.is_fully_replicated]
        assert len(sharded) > len(jax.tree.leaves(params)) / 2
        assert_equal_outputs(golden, *jax.jit(outputs)(params))


def test_the_mask_decoder_is_debertas():
    """As EnhancedMaskDecoder of microsoft/DeBERTa runs the last layer of this model.

    The logits are those of transformers' layers, called as in that class, with sines of
    0, 1, ... as positions: of tokens 10 to 12 at position 5 of three rows, and at
    position 8 of the last.
    """
    golden = huggingface_goldens.load("deberta-v2")
    params = huggingface_goldens.params_of(golden)
    table = np.sin(np.arange(20 * 16, dtype=np.float32).reshape(20, 16))
    params["stack"]["mask_position"] = table
    network = huggingface_goldens.load("deberta-v2", mask_decoder=2, max_length=20)
    run = jax.jit(partial(networks.apply, network.network, fn=network.outputs))
    logits = np.asarray(run(params)[1]["logits"])
    found = [*logits[:3, 5, 10:13], logits[3, 8, 10:13]]
    expected = [[-1.16158, 2.38941, 0.3396], [-1.15821, 0.5919, 0.27306]]
    expected += [[-1.80783, 0.69456, -0.06253], [-1.04558, -0.73425, 0.3774]]
    np.testing.assert_allclose(found, expected, atol=2e-5)
