"""The Hopper kernel behind `model.attention`: FLOPs, lowering, what it lacks."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.pallas.mosaic_gpu.interpret.params import InterpretGPUParams

from research import networks
from research.contract.errors import UserError
from research.distributed import sharding
from research.distributed.options import MeshOptions
from research.kernels.counter_dropout import counter_dropout, dropout_seeds
from research.kernels.hopper.attention import TILES
from research.kernels.plan import Settings
from research.networks.shared.dense_attention import (
    AttentionInputs,
    dense_attention,
    dense_mask,
)
from research.networks.transformer.kernels import choose_kernel
from research.networks.transformer.kernels.hopper import Kernel
from research.networks.transformer.one_stack import Transformer
from research.program.flops import count_flops
from tests.testing.interval_patterns import with_sinks


@pytest.fixture
def on_a_gpu(monkeypatch):
    """What is traced is for a GPU; a call sets its compute capability."""
    monkeypatch.setattr(
        "research.networks.transformer.kernels.platform", lambda: "cuda"
    )

    def set_capability(capability):
        devices = [SimpleNamespace(compute_capability=capability)]
        monkeypatch.setattr(jax, "devices", lambda: devices)

    return set_capability


def test_flops_are_those_of_dense_attention(make_group):
    """Nothing is run."""
    group = make_group(2, 120)
    state = jax.ShapeDtypeStruct((2, 120, 4, 64), jnp.bfloat16)

    def gradient(*states):
        mask = Kernel().mask(AttentionInputs(group, group, "general"), 64, "bfloat16")
        return jax.vjp(mask.attend, *states)[1](states[0])

    assert count_flops(gradient, state, state, state) == 6 * 2 * 2 * 4 * 120**2 * 64


def test_dropout_is_that_of_the_dense_path(make_group):
    """With the same key; the network's mask runs the kernel interpreted."""
    random, rate, key = np.random.default_rng(0), 0.3, jax.random.key(1)
    group = make_group(2, 16)
    inputs = AttentionInputs(group, group, "causal")
    states = [jnp.bfloat16(random.normal(size=(2, 16, 2, 64)) / 4) for _ in range(3)]
    settings = Settings(TILES[64], interpret=InterpretGPUParams())
    mask = Kernel().mask(inputs, 64, "bfloat16")._replace(settings=settings)
    out = mask.attend(*states, dropout_rate=rate, dropout_key=key)
    row, column = (
        jax.lax.broadcasted_iota(jnp.int32, (1, 1, 16, 16), dim) for dim in (2, 3)
    )
    place = dropout_seeds(key, 2, 2)[:, :, None, None], row, column
    expected = dense_attention(
        *states, dense_mask(inputs), drop=lambda p: counter_dropout(p, *place, rate)
    )
    np.testing.assert_allclose(np.float32(out), np.float32(expected), atol=0.02)


def test_the_scored_queries_alone_have_their_own_plan(make_group):
    group, scored = make_group(1, 200), np.array([[7, 150, 3]], np.int32)

    @jax.jit
    def make_plan():
        mask = Kernel().mask(AttentionInputs(group, group, "causal"), 64, "bfloat16")
        return mask.at(scored).plan

    plan = make_plan()
    assert plan.interval.shape == (1, 2, 128)  # a tile
    assert np.array_equal(plan.interval[:, 1, :3], scored + 1)
    (keys,) = plan.bounds.keys
    assert keys.stop.tolist() == [[3]]


def test_a_network_on_a_mesh_of_gpus_has_the_kernel(on_a_gpu, make_options, make_group):
    """Forward and backward, scanned over layers with remat, lowered for CUDA."""
    group = make_group(2, 16)
    own = {"attention": "interval", "dtype": "bfloat16", "width": 128, "remat": "full"}
    network = Transformer(make_options(**own, position="t5"), 50)

    def states(net):
        return net.states(group)

    def total(params):
        return jnp.sum(networks.apply(network, params, states).astype(jnp.float32))

    with sharding.context(
        sharding.make_mesh(MeshOptions(**{"data": 2, "fsdp": 2, "tensor": 2}))
    ):
        shapes = jax.eval_shape(
            lambda: networks.init(network, states, jax.random.key(0))
        )
        traced = jax.jit(jax.grad(total)).trace(networks.unbox(shapes))
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("custom_call @mosaic_gpu_v2") == 4  # forward twice
    assert "tensor<2x64x1x64xbf16>" in text  # of a device: one of two heads


def test_a_second_interval_is_refused(on_a_gpu, make_group):
    on_a_gpu("9.0")
    group = with_sinks(make_group(1, 8), window=2)
    message = "needs an objective whose queries have one interval of ranks; set"
    with pytest.raises(UserError, match=f"interval on a GPU {message} model.attention"):
        Kernel().mask(AttentionInputs(group, group, "general"), 64, "bfloat16")


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, "interval"),
        ({"attention_dropout": 0.1, "position": "t5"}, "interval"),
        ({"dtype": "float32"}, "dense"),
        ({"width": 48}, "library"),
        ({"position": "relative"}, "dense"),
        ({"capability": "8.0"}, "library"),
        ({"capability": "10.0"}, "library"),
        ({"devices": 2}, "library"),
        ({"sinks": True}, "library"),
    ],
    ids=str,
)
def test_auto_is_the_kernel_on_one_hopper(
    changes, expected, on_a_gpu, make_options, make_group
):
    """cuDNN's elsewhere, and without it, or where it lacks something, dense."""
    own = {"capability": "9.0", "devices": 1, "sinks": False} | changes
    devices = jax.devices()[: own.pop("devices")]
    group = make_group(1, 8)
    if own.pop("sinks"):
        group = with_sinks(group, window=2)
    sizes = {"data": -1, "fsdp": 1, "tensor": 1}
    with sharding.context(sharding.make_mesh(MeshOptions(**sizes), devices)):
        on_a_gpu(own.pop("capability"))
        options = make_options(
            **{"attention": "auto", "dtype": "bfloat16", "width": 128} | own
        )
        inputs = AttentionInputs(group, group, "general")
        assert choose_kernel(options, inputs).attention == expected


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"width": 48}, "needs heads of width 64 or 128, not 24"),
        ({"dtype": "float32"}, "needs model.dtype bfloat16, not float32"),
        ({"position": "relative"}, "has no relative terms"),
        (
            {"token_type_encoding": "relative", "token_types": 2},
            "has no relative terms",
        ),
        ({"capability": "8.0"}, "needs compute capability 9 .Hopper., not 8.0"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_what_it_lacks_is_refused(changes, message, on_a_gpu, make_options, make_group):
    changes = dict(changes)
    on_a_gpu(changes.pop("capability", "9.0"))
    own = {"attention": "interval", "dtype": "bfloat16", "width": 128}
    network = Transformer(make_options(layers=1, **(own | changes)), 50)
    group = make_group(1, 8)

    def init():
        keys = jax.random.key(0), jax.random.key(1)
        params = networks.init(network, lambda net: net.states(group), keys[0])
        return networks.apply(network, params, lambda net: net.states(group), keys[1])

    ending = "; set model.attention=dense"
    with pytest.raises(
        UserError, match=f"interval on (a GPU|cuda) {message}.*{ending}"
    ):
        jax.eval_shape(init)
